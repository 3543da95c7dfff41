"""Every prefix cache keeps its contract."""

from outrider.testing.contracts import CacheContract


class TestNone(CacheContract):
    use = "none"


class TestReplay(CacheContract):
    use = "replay"


class TestReplayOnADenseModel(CacheContract):
    use = "replay"
    keys = {"engine": {"recurrent": False}}
