"""Classes that are wrong on purpose, and contract suites for classes that are not installed."""

from outrider import Accepted, Sampler


class Credulous(Sampler):
    """Takes any draft for granted."""

    def open(self, runtime):
        self.target = runtime.engine.target

    def accept(self, sequences, drafts, rows):
        return [
            Accepted(len(d.tokens), self.target.argmax(row + len(d.tokens)))
            for d, row in zip(drafts, rows, strict=True)
        ]


def contract_for(contract, cls):
    """An instance of the contract's suite for a class that is not installed."""

    class Suite(contract):
        use = "broken"
        offers = {contract.kind: {"broken": cls}}

    return Suite()
