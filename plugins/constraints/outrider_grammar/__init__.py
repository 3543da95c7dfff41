"""`json-schema` and `tool-calls`: answers that cannot break the form that was asked for."""

from collections.abc import Mapping

from outrider import ConstraintFactory, hookimpl

from outrider_grammar.factories import JsonSchemaFactory, ToolCallsFactory


@hookimpl
def outrider_constraints() -> Mapping[str, type[ConstraintFactory]]:
    """Offer `json-schema` and `tool-calls`."""
    return {"json-schema": JsonSchemaFactory, "tool-calls": ToolCallsFactory}
