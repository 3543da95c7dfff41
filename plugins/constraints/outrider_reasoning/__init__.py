"""`reasoning-budget`: thinking ends in time for an answer."""

from collections.abc import Mapping

from outrider import ConstraintFactory, hookimpl

from outrider_reasoning.factory import ReasoningBudgetFactory


@hookimpl
def outrider_constraints() -> Mapping[str, type[ConstraintFactory]]:
    """Offer `reasoning-budget`."""
    return {"reasoning-budget": ReasoningBudgetFactory}
