"""Every built-in draft length keeps its contract."""

from outrider.testing.contracts import DraftLengthContract


class TestFixed(DraftLengthContract):
    use = {"use": "fixed", "k": 4}


class TestFixedToNothing(DraftLengthContract):
    use = {"use": "fixed", "k": 0}


class TestRandom(DraftLengthContract):
    use = {"use": "random", "max": 5}
