"""Every built-in draft length keeps its contract."""

from outrider.testing.contracts import DraftLengthContract


class TestFixed(DraftLengthContract):
    use = {"use": "fixed", "k": 4}


class TestFixedToNothing(DraftLengthContract):
    use = {"use": "fixed", "k": 0}


class TestRandom(DraftLengthContract):
    use = {"use": "random", "max": 5}


class TestMeasured(DraftLengthContract):
    use = {"use": "measured", "max": 5}


class TestAdaptive(DraftLengthContract):
    use = {"use": "adaptive", "max": 5}
