"""Every built-in observer keeps the observer contract."""

import pytest
from outrider.testing.contracts import ObserverContract


class TestTrace(ObserverContract):
    use = {"use": "trace", "path": "trace.jsonl"}

    @pytest.fixture(autouse=True)
    def in_a_folder_of_its_own(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
