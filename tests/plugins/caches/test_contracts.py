"""Every prefix cache keeps its contract."""

from outrider.testing.contracts import CacheContract


class TestNone(CacheContract):
    use = "none"


class TestReplay(CacheContract):
    use = "replay"


class TestReplayOnADenseModel(CacheContract):
    use = "replay"
    keys = {"engine": {"recurrent": False}}


class TestSnapshots(CacheContract):
    use = {"use": "snapshots", "min_tokens": 1, "every": 8}


class TestSnapshotsOnADenseModel(CacheContract):
    use = {"use": "snapshots", "min_tokens": 1, "every": 8}
    keys = {"engine": {"recurrent": False}}


class TestSnapshotsWithoutRoom(CacheContract):
    use = {"use": "snapshots", "min_tokens": 1, "ram": 2000}


class TestSnapshotsWithRoomForFew(CacheContract):
    use = {"use": "snapshots", "ram": "3KiB"}


class TestSnapshotsOfADenseModel(CacheContract):
    use = "snapshots"
    keys = {"engine": {"recurrent": False}}
