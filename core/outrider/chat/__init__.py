"""Chat: what template plugins and servers share.

The API front end (`ChatRequest`), the answer's parts (`Message`, deltas), the incremental reader
of answers with tagged tool calls (`AnswerParser`), and argument types from JSON Schema.
"""

from outrider.chat.body import read_json, write_json
from outrider.chat.fields import BODY_FIELDS
from outrider.chat.message import (
    CallArguments,
    CallFinished,
    CallStarted,
    ContentDelta,
    Delta,
    Message,
    ReasoningDelta,
    ToolCall,
    Violation,
)
from outrider.chat.parser import AnswerParser
from outrider.chat.request import (
    QWEN_EFFORTS,
    ChatRequest,
    Continuation,
    map_effort,
)
from outrider.chat.tools import ToolChoice, ToolMode, Tools, read_tools

__all__ = [
    "BODY_FIELDS",
    "QWEN_EFFORTS",
    "AnswerParser",
    "CallArguments",
    "CallFinished",
    "CallStarted",
    "ChatRequest",
    "ContentDelta",
    "Continuation",
    "Delta",
    "Message",
    "ReasoningDelta",
    "ToolCall",
    "ToolChoice",
    "ToolMode",
    "Tools",
    "Violation",
    "map_effort",
    "read_json",
    "read_tools",
    "write_json",
]
