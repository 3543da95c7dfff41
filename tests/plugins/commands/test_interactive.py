"""`outrider chat`: its commands, and an interrupt that stops the answer and not the program."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest
from outrider import Pipeline
from outrider_chat.interactive import Conversation

COMMAND = [sys.executable, "-c", "from outrider.cli import main; main()", "chat"]


def test_turns_are_remembered_until_reset(
    plain: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    conversation = Conversation(plain, "Be brief.", {"max_tokens": 120}, hide_thinking=False)
    conversation.enter("What is 3 + 4?")
    conversation.enter("Hello!")
    roles = [m["role"] for m in conversation.messages]
    assert roles == ["system", "user", "assistant", "user", "assistant"]
    conversation.enter("/stats")
    assert "tokens/s" in capsys.readouterr().err
    conversation.enter("/reset")
    assert [m["role"] for m in conversation.messages] == ["system"]
    conversation.enter("/nonsense")
    assert "/nonsense" in capsys.readouterr().err
    conversation.enter("/quit")
    assert conversation.over


def test_a_question_that_cannot_be_served_is_not_kept(
    plain: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    conversation = Conversation(plain, None, {}, hide_thinking=False)
    conversation.enter("word " * 50_000)
    assert conversation.messages == []
    assert "outrider:" in capsys.readouterr().err


def test_ctrl_c_stops_the_answer_and_not_the_program() -> None:
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "--set", "engine.threads=1", "--set", "drafter.use=none"],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        close_fds=True,
    )
    os.close(follower)
    try:
        read_until(leader, b"> ")
        os.write(leader, b"What is 6748 + 2875? Explain every step.\n")
        read_until(leader, b"\x1b[2m")
        process.send_signal(signal.SIGINT)
        assert b"[the request was cancelled]" in read_until(leader, b"]\x1b[0m\n> ")
        os.write(leader, b"/stats\n")
        assert b"tokens/s" in read_until(leader, b"\n> ")
        os.write(leader, b"/quit\n")
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def read_until(terminal: int, mark: bytes) -> bytes:
    said = b""
    deadline = time.monotonic() + 60
    while mark not in said.replace(b"\r", b""):
        assert time.monotonic() < deadline, said
        if select.select([terminal], [], [], 1)[0]:
            said += os.read(terminal, 65536)
    return said
