"""Every built-in draft length keeps its contract."""

import pytest
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


@pytest.fixture(autouse=True)
def no_tables_of_this_machine(tmp_path, monkeypatch):
    """Measured costs are kept in the user's cache; these tests have their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class TestMeasured(DraftLengthContract):
    use = {"use": "measured", "max": 5}


class TestAdaptive(DraftLengthContract):
    use = {"use": "adaptive", "max": 5}
