"""Every built-in rollback keeps the rollback contract."""

from outrider.testing.contracts import RollbackContract


class TestSnapshotRing(RollbackContract):
    use = "snapshot-ring"


class TestTruncate(RollbackContract):
    use = "kv-truncate"
    keys = {"engine": {"recurrent": False}}


class TestCheckpoint(RollbackContract):
    use = "checkpoint"
    keys = {"engine": {"ring": False}}


class TestCheckpointBesideARing(RollbackContract):
    use = "checkpoint"
