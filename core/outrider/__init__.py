"""Outrider: composable speculative decoding for hybrid language models on llama.cpp.

What is exported here is what plugins may use; for samplers there is `outrider.native`, too: the
kernels for work over the vocabulary.
"""

from outrider.components import (
    Assembly,
    ChatTemplate,
    Component,
    ComponentSpec,
    Constraint,
    ConstraintFactory,
    Decision,
    Drafter,
    DrafterSpec,
    DraftLength,
    Observer,
    PrefixCache,
    Prompt,
    Reuse,
    Runtime,
    Sampler,
    SamplerSpec,
    StateRollback,
    Verifier,
)
from outrider.config import ByteSize
from outrider.decode import Decoder
from outrider.engine.fingerprint import file_fingerprint
from outrider.errors import (
    ConfigError,
    EngineError,
    LibraryError,
    LogitsError,
    ModelError,
    OutriderError,
    PluginError,
    RequestError,
)
from outrider.hookspecs import hookimpl
from outrider.pipeline import Pipeline
from outrider.sequence import Finish, FinishReason, Request, Sequence, Slot
from outrider.states import Snapshot, States
from outrider.step import NO_DRAFT, Accepted, Distribution, Draft, LogProb, Step
from outrider.target import (
    Batch,
    Context,
    Engine,
    EnginePlan,
    ModelInfo,
    Needs,
    RowBuffer,
    Rows,
    Vocabulary,
)

__version__ = "0.1.0"

__all__ = [
    "NO_DRAFT",
    "Accepted",
    "Assembly",
    "Batch",
    "ByteSize",
    "ChatTemplate",
    "Component",
    "ComponentSpec",
    "ConfigError",
    "Constraint",
    "ConstraintFactory",
    "Context",
    "Decision",
    "Decoder",
    "Distribution",
    "Draft",
    "DraftLength",
    "Drafter",
    "DrafterSpec",
    "Engine",
    "EngineError",
    "EnginePlan",
    "Finish",
    "FinishReason",
    "LibraryError",
    "LogProb",
    "LogitsError",
    "ModelError",
    "ModelInfo",
    "Needs",
    "Observer",
    "OutriderError",
    "Pipeline",
    "PluginError",
    "PrefixCache",
    "Prompt",
    "Request",
    "RequestError",
    "Reuse",
    "RowBuffer",
    "Rows",
    "Runtime",
    "Sampler",
    "SamplerSpec",
    "Sequence",
    "Slot",
    "Snapshot",
    "StateRollback",
    "States",
    "Step",
    "Verifier",
    "Vocabulary",
    "file_fingerprint",
    "hookimpl",
]
