"""Every built-in drafter keeps the drafter contract."""

from outrider.testing.contracts import DrafterContract


class TestSuffix(DrafterContract):
    use = {"use": "suffix", "min_match": 1, "max_draft": 7}


class TestMtp(DrafterContract):
    use = "mtp"


class TestMtpThatDraws(DrafterContract):
    use = {"use": "mtp", "sample": True}
    keys = {"sampler": {"use": "rejection", "temperature": 0}}


class TestCascade(DrafterContract):
    use = {"use": "cascade", "of": [{"use": "suffix", "min_match": 2}, {"use": "mtp"}]}


class TestCascadeOfCascades(DrafterContract):
    use = {
        "use": "cascade",
        "of": [{"use": "cascade", "of": ["none", "suffix"]}, {"use": "echo", "accuracy": [0.5]}],
    }


class TestNone(DrafterContract):
    use = "none"


class TestEcho(DrafterContract):
    use = {"use": "echo", "accuracy": [0.9, 0.5]}


class TestAlwaysWrong(DrafterContract):
    use = "always-wrong"
