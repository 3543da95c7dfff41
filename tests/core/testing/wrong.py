"""Contract suites for classes that are not installed, and are wrong on purpose."""


def contract_for(contract, cls):
    """An instance of the contract's suite for a class that is not installed."""

    class Suite(contract):
        use = "broken"
        offers = {contract.kind: {"broken": cls}}

    return Suite()
