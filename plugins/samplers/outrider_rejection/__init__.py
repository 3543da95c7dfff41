"""The `rejection` sampler: exact speculative sampling with the usual options."""

from __future__ import annotations

from outrider import hookimpl

from outrider_rejection.options import RejectionConfig
from outrider_rejection.sampler import RejectionSampler

__all__ = ["RejectionConfig", "RejectionSampler"]


@hookimpl
def outrider_samplers():
    """Offer `rejection`."""
    return {"rejection": RejectionSampler}
