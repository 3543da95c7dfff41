"""The `chain` verifier."""

from outrider.testing.contracts import VerifierContract


class TestChain(VerifierContract):
    use = "chain"
