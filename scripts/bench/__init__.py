"""What the benchmark scripts share: engines to measure, prompts, statistics, reports."""
