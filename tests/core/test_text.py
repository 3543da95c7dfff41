"""Tokens to text: never half a character, never part of a stop string, nothing lost."""

import codecs
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from outrider.testing.toy import ToyVocabulary
from outrider.text import TextStream

VOCABULARY = ToyVocabulary()


class Bytes:
    """A vocabulary whose tokens are given as byte strings."""

    def __init__(self, pieces, control=()):
        self.pieces, self.control = pieces, control

    def piece(self, token):
        return self.pieces[token]

    def is_control(self, token):
        return token in self.control


def split(data, cuts):
    """`data` cut at these places (modulo its length)."""
    places = sorted({c % (len(data) + 1) for c in cuts} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


def run(pieces, stop=()):
    """(what each token made certain, whether and where a stop string ended it, whole text)."""
    stream = TextStream(Bytes(pieces), stop)
    parts = []
    ended = None
    for i in range(len(pieces)):
        if stream.push([i]):
            ended = i
            break
        parts.append(stream.take())
    stream.close()
    parts.append(stream.take())
    assert stream.text == "".join(parts)
    return parts, ended, stream.text


cuts = st.lists(st.integers(0, 400), max_size=60)
words = st.text(alphabet="ab é馬🐎\n", max_size=30)


@given(st.text(max_size=60), cuts)
def test_text_comes_out_whole_however_it_is_cut(text, places):
    parts, ended, whole = run(split(text.encode(), places))
    assert whole == text
    assert ended is None
    assert all("\ufffd" not in part for part in parts) or "\ufffd" in text


@given(st.binary(max_size=60), cuts)
def test_any_bytes_become_what_a_whole_decode_makes_of_them(data, places):
    assert run(split(data, places))[2] == data.decode("utf-8", errors="replace")


@given(st.text(max_size=30), cuts)
def test_a_character_comes_as_soon_as_its_last_byte(text, places):
    pieces = split(text.encode(), places)
    stream = TextStream(Bytes(pieces))
    so_far = b""
    for i, piece in enumerate(pieces):
        stream.push([i])
        so_far += piece
        assert stream.text == codecs.getincrementaldecoder("utf-8")().decode(so_far)


@given(words, st.lists(st.text(alphabet="ab é馬🐎\n", min_size=1, max_size=4), max_size=3), cuts)
def test_the_text_ends_before_the_first_stop_string_wherever_tokens_end(text, stop, places):
    pieces = split(text.encode(), places)
    _, ended, whole = run(pieces, stop)
    # token by token, the first one after which a stop string stands in the text
    decode = codecs.getincrementaldecoder("utf-8")().decode
    certain = ""
    for i, piece in enumerate(pieces):
        certain += decode(piece)
        found = [at for at in map(certain.find, stop) if at >= 0]
        if found:
            assert ended == i
            assert whole == certain[: min(found)]
            return
    assert ended is None
    assert whole == text


@given(
    words, st.lists(st.text(alphabet="ab ", min_size=1, max_size=4), min_size=1, max_size=3), cuts
)
def test_nothing_that_was_let_out_is_ever_taken_back(text, stop, places):
    parts, _, whole = run(split(text.encode(), places), stop)
    assert whole.startswith("".join(parts))
    assert not any(s in whole for s in stop)


@given(words, st.text(alphabet="ab ", min_size=1, max_size=4), cuts)
def test_no_more_is_held_back_than_could_begin_a_stop_string(text, stop, places):
    pieces = split(text.encode(), places)
    stream = TextStream(Bytes(pieces), (stop,))
    decode = codecs.getincrementaldecoder("utf-8")().decode
    certain = ""
    for i, piece in enumerate(pieces):
        if stream.push([i]):
            return
        certain += decode(piece)
        held = certain[len(stream.text) :]
        assert certain.startswith(stream.text)
        assert stop.startswith(held)
        assert held != stop


def test_a_character_that_is_cut_off_at_the_end_is_one_replacement_sign():
    assert run([b"a", "🐎".encode()[:3]])[2] == "a\ufffd"


@pytest.mark.parametrize("n", [1, 2, 3])
def test_split_characters_do_not_become_two_signs(n):
    horse = "🐎".encode()
    assert run([horse[:n], horse[n:]])[2] == "🐎"


def test_a_stop_string_over_three_tokens():
    parts, ended, whole = run([b"on", b"ce S", b"T", b"OP now"], ("STOP",))
    assert (ended, whole) == (3, "once ")
    assert parts[:3] == ["on", "ce ", ""]


def test_a_stop_string_that_does_not_come_after_all():
    assert run([b"once S", b"T", b"AY"], ("STOP",))[2] == "once STAY"
    assert run([b"once ST"], ("STOP",))[2] == "once ST"


def test_a_stop_string_completed_by_the_replacement_of_a_cut_character():
    """Only at the end is the cut character certain."""
    _, ended, whole = run([b"ab", "é".encode()[:1]], ("\ufffd",))
    assert (ended, whole) == (None, "ab")


def test_nothing_follows_a_stop_string_not_even_half_a_character():
    assert run([b"ab" + "馬".encode()[:2]], ("b",))[2] == "a"


def test_the_earliest_of_several_stop_strings_wins():
    assert run([b"a bc d"], ("d", "bc"))[2] == "a "


def test_empty_stop_strings_stop_nothing():
    assert run([b"abc"], ("",))[2] == "abc"


def test_control_tokens_are_no_text():
    stream = TextStream(VOCABULARY, (" <|end|>",))
    for token in (*VOCABULARY.tokenize(" rider"), VOCABULARY.end, VOCABULARY.go):
        assert not stream.push([token])
    stream.close()
    assert stream.text == " rider"
