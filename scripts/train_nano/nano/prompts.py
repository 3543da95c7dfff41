"""Hand-written prompts for the run-time checks.

Some have the wording of a generator template and so are in-distribution: the prime function, the weather call
and its answer, the sum, the story, the definition and the greeting. The edited code, the ticket tool and the names are new.
"""
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather for a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city name"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city"],
        },
    },
}
TICKET: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "open_ticket",
        "description": "Open a support ticket",
        "parameters": {
            "type": "object",
            "properties": {"title": {"type": "string"}, "priority": {"type": "integer"}},
            "required": ["title", "priority"],
        },
    },
}

EDIT_SOURCE = """def load_settings(path):
    settings = {}
    with open(path) as handle:
        for line in handle:
            key, value = line.strip().split("=")
            settings[key] = value
    return settings


def save_settings(path, settings):
    with open(path, "w") as handle:
        for key, value in settings.items():
            handle.write(key + "=" + value)
"""

COMPLETIONS: dict[str, str] = {
    "code: class": "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n",
    "code: numpy": 'import numpy as np\n\n\ndef softmax(x, axis=-1):\n    """Compute the softmax of ``x`` along ``axis``.\n\n    Parameters\n    ----------\n    x : array_like\n',
    "code: argparse": 'import argparse\n\n\ndef main():\n    parser = argparse.ArgumentParser(description="Count words in a file")\n    parser.add_argument("path", help="the input file")\n',
    "code: test": "import unittest\n\nfrom calc import add, subtract\n\n\nclass TestCalc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n",
    "prose: doc": "Getting started\n===============\n\nThis package provides a set of tools for working with time series. ",
}


def _user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


CHATS: dict[str, dict[str, Any]] = {
    "edit: rename": {
        "messages": _user(
            f"Rename the variable settings to options:\n\n```python\n{EDIT_SOURCE}```"
        )
    },
    "edit: docstring": {
        "messages": _user(
            f"Add a docstring to load_settings in this code:\n\n```python\n{EDIT_SOURCE}```"
        ),
        "think": False,
    },
    "write: function": {
        "messages": _user("Write a Python function that checks if a number is prime.")
    },
    "tool: weather": {
        "messages": _user("What's the weather in Lisbon?"),
        "tools": [WEATHER, TICKET],
    },
    "tool: ticket": {
        "messages": _user("Open a ticket with title printer jam and priority 4."),
        "tools": [WEATHER, TICKET],
        "think": False,
    },
    "tool: answer": {
        "messages": [
            *_user("What's the weather in Lisbon?"),
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city": "Lisbon"}'},
                    }
                ],
            },
            {
                "role": "tool",
                "tool_call_id": "c1",
                "content": '{"city": "Lisbon", "temperature": 21, "condition": "sunny"}',
            },
        ],
        "tools": [WEATHER],
    },
    "math: sum": {"messages": _user("What is 348 + 275?")},
    "math: story": {
        "messages": _user(
            "Maria has 24 eggs. She buys 18 more eggs and then breaks 7. How many eggs does she have now?"
        ),
        "effort": "xhigh",
    },
    "data: json": {
        "messages": _user("Extract the data as JSON.\n\nName: Iris Holm\nCity: Bergen\nAge: 41"),
        "think": False,
    },
    "data: lookup": {
        "messages": _user(
            "alpha: 7731\nbravo: kite\ncharlie: 9054\ndelta: moss\n\nWhat is the value of charlie?"
        ),
        "effort": "low",
    },
    "text: question": {
        "messages": _user(
            "Nora lives in Oslo. Peter works as a baker in Lyon. Ella bought 12 lamps on Friday.\n\nWhat is the job of Peter?"
        )
    },
    "text: story": {
        "messages": _user("Write a short story about Nina and a bridge."),
        "think": False,
    },
    "text: define": {"messages": _user("What is recursion?"), "think": False},
    "greeting": {"messages": _user("Hello!"), "think": False},
}
