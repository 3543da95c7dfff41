"""What every component must do, as test classes.

Subclass the contract of a kind in a test module and name the component; pytest runs the rest::

    from outrider.testing.contracts import DrafterContract

    class TestRepeatLast(DrafterContract):
        use = "repeat-last"

A component that is not installed is handed over: `offers = {"drafter": {"mine": MyDrafter}}`.
"""

from outrider.testing.contracts.around import (
    CacheContract,
    ConstraintContract,
    ObserverContract,
    TemplateContract,
)
from outrider.testing.contracts.base import ComponentContract
from outrider.testing.contracts.drafters import DrafterContract, DraftLengthContract
from outrider.testing.contracts.steps import RollbackContract, SamplerContract, VerifierContract

__all__ = [
    "CacheContract",
    "ComponentContract",
    "ConstraintContract",
    "DraftLengthContract",
    "DrafterContract",
    "ObserverContract",
    "RollbackContract",
    "SamplerContract",
    "TemplateContract",
    "VerifierContract",
]
