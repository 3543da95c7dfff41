"""What `cache_soak.py` runs; the tests run smaller versions of the same."""
