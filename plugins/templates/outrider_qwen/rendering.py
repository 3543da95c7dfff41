"""The Qwen3.5 / 3.6 / 3.8 conversation format, written out.

`render` produces, byte for byte, what the chat template of the model's own files produces
(`Qwen/Qwen3.5-…`, `Qwen3.6-…`, `Qwen3.8-… chat_template.jinja`). White space is trimmed as
Python's `str.strip` does, which is what jinja2 does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import attrs
from outrider import Prompt, RequestError, Runtime
from outrider.chat import ChatRequest, write_json

from outrider_qwen.dialects import Dialect, History

_EFFORT_SENTENCES = {
    "xhigh": "Reasoning effort is set to xhigh. Please think carefully through the task, validate "
    "key assumptions, consider plausible alternatives, and prioritize correctness, consistency, "
    "and clarity in the final answer.",
    "medium": "",
    "low": "Reasoning effort is set to low. Keep your thinking brief and focused, moving directly "
    "to the conclusion without unnecessary elaboration.",
}

_TOOLS_HEAD = "# Tools\n\nYou have access to the following functions:\n\n<tools>"

_TOOLS_TAIL = """
</tools>

If you choose to call a function ONLY reply in the following format with NO suffix:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
This is the value for the second parameter
that can span
multiple lines
</parameter>
</function>
</tool_call>

<IMPORTANT>
Reminder:
- Function calls MUST follow the specified format: an inner <function=...></function> block must \
be nested within <tool_call></tool_call> XML tags
- Required parameters MUST be specified
- You may provide optional reasoning for your function call in natural language BEFORE the \
function call, but NOT after
- If there is no function call available, answer the question like normal with your current \
knowledge and do not tell the user about function calls
</IMPORTANT>"""

_OPEN = "<think>\n"
_CLOSE = "\n</think>\n\n"

Message = Mapping[str, Any]


@attrs.frozen
class NativeRenderer:
    """Reads and renders requests for one dialect."""

    dialect: Dialect

    def opened(self, runtime: Runtime) -> NativeRenderer:
        """The same: a dialect names its tokens itself."""
        return self

    def read(self, body: Mapping[str, Any] | bytes | str, *, images: bool = False) -> ChatRequest:
        """The request in template form. Raises RequestError."""
        return ChatRequest.read(body, efforts=self.dialect.efforts, images=images)

    def render(self, chat: ChatRequest) -> Prompt:
        """The prompt of a request. Raises RequestError where the template raises."""
        return render(chat, self.dialect)


def render(chat: ChatRequest, dialect: Dialect) -> Prompt:
    """The prompt of a conversation. Raises RequestError where the template raises."""
    messages, variables = chat.messages, chat.variables
    pieces: list[str] = []
    images = _Images(label=bool(variables.get("add_vision_id")))
    if not messages:
        raise RequestError("No messages provided.")
    leading = _leading_systems(messages, dialect)
    pieces.append(_system_block(chat, messages[:leading], dialect, images))
    last_question = _last_question(messages, dialect, images)
    for index, message in enumerate(messages):
        if dialect.merges_systems and index < leading:
            continue
        content = images.text(message.get("content"), counted=True).strip()
        match message.get("role"):
            case "system":
                if index:
                    raise RequestError("System message must be at the beginning.")
            case "developer" if dialect.merges_systems:
                raise RequestError("System message must be at the beginning.")
            case "user":
                pieces.append(f"<|im_start|>user\n{content}<|im_end|>\n")
            case "assistant":
                kept = index > last_question or _keeps_thinking(dialect, variables)
                pieces.append(_assistant_turn(message, content, kept, dialect))
            case "tool":
                pieces.append(_tool_result(messages, index, content))
            case _:
                raise RequestError(
                    "Unexpected message role. Roles are system, user, assistant and tool; "
                    f"messages[{index}] has {message.get('role')!r}"
                )
    history = "".join(pieces)
    return Prompt(history + _ending(chat, dialect), len(history), _leaves_open(chat, dialect))


def _system_block(
    chat: ChatRequest, systems: Sequence[Message], dialect: Dialect, images: _Images
) -> str:
    texts = [images.text(m.get("content"), system=True).strip() for m in systems]
    system = "\n".join(filter(None, texts))
    effort = _effort_sentence(chat.variables, dialect)
    tools = chat.tools
    if tools and not isinstance(tools, Mapping):
        listed = "".join("\n" + write_json(t) for t in cast("Iterable[Any]", tools))
        sections = [effort, _TOOLS_HEAD + listed + _TOOLS_TAIL, system]
    else:
        sections = [effort, system]
        if systems and dialect.empty_system_block:
            return f"<|im_start|>system\n{system}<|im_end|>\n"
    body = "\n\n".join(filter(None, sections))
    return f"<|im_start|>system\n{body}<|im_end|>\n" if body else ""


def _effort_sentence(variables: Mapping[str, Any], dialect: Dialect) -> str:
    if not dialect.efforts or variables.get("enable_thinking", True) is not True:
        return ""
    effort = variables.get("reasoning_effort", dialect.efforts[0])
    if effort == "high" and dialect.merges_systems:
        effort = "xhigh"
    if effort not in dialect.efforts:
        raise RequestError(
            f"Unexpected reasoning effort {effort}. "
            "Supported types are xhigh (default), medium, and low."
        )
    return _EFFORT_SENTENCES[effort]


def _leading_systems(messages: Sequence[Message], dialect: Dialect) -> int:
    """How many messages at the start make the system block."""
    if not dialect.merges_systems:
        return int(messages[0].get("role") == "system")
    count = 0
    while count < len(messages) and messages[count].get("role") in ("system", "developer"):
        count += 1
    return count


def _last_question(messages: Sequence[Message], dialect: Dialect, images: _Images) -> int:
    """Index of the last user message that is not a tool response in disguise."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") != "user":
            continue
        content = images.text(messages[index].get("content")).strip()
        if not (content.startswith("<tool_response>") and content.endswith("</tool_response>")):
            return index
    if dialect.needs_question:
        raise RequestError("No user query found in messages.")
    return len(messages) - 1


def _keeps_thinking(dialect: Dialect, variables: Mapping[str, Any]) -> bool:
    if dialect.history is History.DROPPED:
        return False
    default = dialect.history is History.KEPT
    return variables.get("preserve_thinking", default) is True


def _assistant_turn(message: Message, content: str, kept: bool, dialect: Dialect) -> str:
    thinking = message.get("reasoning_content")
    if not isinstance(thinking, str):
        thinking = ""
        if dialect.splits_inline_thinking and "</think>" in content:
            before, *_, after = content.split("</think>")
            thinking = before.rstrip("\n").split("<think>")[-1].lstrip("\n")
            content = after.lstrip("\n")
    block = f"{_OPEN}{thinking.strip()}{_CLOSE}" if kept else ""
    calls = message.get("tool_calls")
    if not calls or isinstance(calls, Mapping):
        calls = ()
    written = "\n".join(_tool_call(c, dialect) for c in cast("Iterable[Any]", calls))
    gap = "\n\n" if written and content.strip() else ""
    return f"<|im_start|>assistant\n{block}{content}{gap}{written}<|im_end|>\n"


def _tool_call(call: Any, dialect: Dialect) -> str:
    function: Any = call.get("function", call) if isinstance(call, Mapping) else {}
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise RequestError("Tool call is missing a function name.")
    arguments: Any = cast("Message", function).get("arguments")
    blank = arguments == "" or (dialect.explains_arguments and _is_blank(arguments))
    if arguments is None or blank:
        arguments = {}
    if not isinstance(arguments, Mapping):
        if dialect.explains_arguments and isinstance(arguments, str):
            raise RequestError(
                f'Tool call arguments for function "{name}" were passed as a JSON string. '
                "Parse them into an object before calling apply_chat_template."
            )
        raise RequestError(
            f'Tool call arguments for function "{name}" must be an object/mapping or a JSON string.'
        )
    lines = [f"<tool_call>\n<function={name}>\n"]
    for key, value in cast("Message", arguments).items():
        lines.append(f"<parameter={key}>\n{_argument(value, dialect)}\n</parameter>\n")
    lines.append("</function>\n</tool_call>")
    return "".join(lines)


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _argument(value: Any, dialect: Dialect) -> str:
    if isinstance(value, str):
        return value
    if dialect.json_scalars or isinstance(value, (Mapping, list, tuple)):
        return write_json(value)
    return str(value)


def _tool_result(messages: Sequence[Message], index: int, content: str) -> str:
    """One result; consecutive results share a user block."""
    opens = index > 0 and messages[index - 1].get("role") != "tool"
    closes = index + 1 == len(messages) or messages[index + 1].get("role") != "tool"
    return (
        ("<|im_start|>user" if opens else "")
        + f"\n<tool_response>\n{content}\n</tool_response>"
        + ("<|im_end|>\n" if closes else "")
    )


def _ending(chat: ChatRequest, dialect: Dialect) -> str:
    header = "<|im_start|>assistant\n"
    unfinished = chat.continuation
    if unfinished is not None:
        text = header + _OPEN + unfinished.reasoning
        return text if unfinished.inside_thinking else text + _CLOSE + unfinished.content
    if not (chat.generation_prompt or chat.variables.get("add_generation_prompt")):
        return ""
    return header + (_OPEN if _opens_block(chat, dialect) else _OPEN + _CLOSE)


def _opens_block(chat: ChatRequest, dialect: Dialect) -> bool:
    wish = chat.variables.get("enable_thinking")
    return wish is not False if dialect.thinks_by_default else wish is True


def _leaves_open(chat: ChatRequest, dialect: Dialect) -> bool:
    if chat.continuation is not None:
        return chat.continuation.inside_thinking
    return chat.generation_prompt and _opens_block(chat, dialect)


class _Images:
    """Writes message content; counts images and videos over the whole conversation."""

    def __init__(self, label: bool) -> None:
        self.label = label
        self.images = 0
        self.videos = 0

    def text(self, content: Any, *, counted: bool = False, system: bool = False) -> str:
        """The text of a message's content; parts follow each other with nothing between."""
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        if not isinstance(content, (list, tuple)):
            raise RequestError("Unexpected content type.")
        return "".join(self._part(p, counted, system) for p in cast("Sequence[Any]", content))

    def _part(self, part: Any, counted: bool, system: bool) -> str:
        if not isinstance(part, Mapping):
            raise RequestError("Unexpected item type in content.")
        part = cast("Message", part)
        if "image" in part or "image_url" in part or part.get("type") == "image":
            if system:
                raise RequestError("System message cannot contain images.")
            self.images += counted
            label = f"Picture {self.images}: " if self.label else ""
            return label + "<|vision_start|><|image_pad|><|vision_end|>"
        if "video" in part or part.get("type") == "video":
            if system:
                raise RequestError("System message cannot contain videos.")
            self.videos += counted
            label = f"Video {self.videos}: " if self.label else ""
            return label + "<|vision_start|><|video_pad|><|vision_end|>"
        if "text" in part:
            return str(part["text"])
        raise RequestError("Unexpected item type in content.")
