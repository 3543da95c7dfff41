"""Every built-in sampler keeps the sampler contract."""

from outrider.testing.contracts import SamplerContract


class TestGreedy(SamplerContract):
    use = "greedy"


class TestRejection(SamplerContract):
    use = {"use": "rejection", "temperature": 1.0}


class TestRejectionWithEverything(SamplerContract):
    use = {
        "use": "rejection",
        "temperature": 0.8,
        "top_k": 20,
        "top_p": 0.95,
        "min_p": 0.01,
        "presence_penalty": 0.5,
    }
