"""Lines and progress bars of several workers in one stream."""

import io

import pytest

from d2lperf.processes.output import Output


@pytest.fixture
def shown():
    """An output, and what it shows."""
    screen = io.StringIO()
    return Output(lambda: screen), screen.getvalue


def test_lines_are_shown_when_they_are_complete(shown):
    output, text = shown
    assert output.add("a", b"one\nt") == [b"one"]
    assert output.add("b", b"other\n") == [b"other"]
    assert text() == "[a] one\n[b] other\n"
    assert output.add("a", b"wo\n") == [b"two"]
    output.add("a", b"the end")
    assert output.end("a") == [b"the end"] and output.end("b") == []
    assert text() == "[a] one\n[b] other\n[a] two\n[a] the end\n"


def test_a_bar_is_drawn_in_place_and_lines_of_others_do_not_break_it(shown):
    output, text = shown
    output.add("a", b"\r 10 %")
    output.add("a", b"\r 20 %\r 30 %")
    assert text() == "\r[a]  10 %\r[a]  30 %"
    output.add("b", b"a line\n")
    blank = "\r" + " " * len("[a]  10 %") + "\r"
    assert text() == f"\r[a]  10 %\r[a]  30 %{blank}[b] a line\n"
    output.add("a", b"\r100 %\n")
    assert text() == f"\r[a]  10 %\r[a]  30 %{blank}[b] a line\n[a] 100 %\n"


def test_a_shorter_state_covers_a_longer_one(shown):
    output, text = shown
    output.add("a", b"long\r")
    output.add("a", b"xy\r")
    assert text() == "\r[a] long\r[a] xy  "
    output.end("a")
    assert text().endswith("\r[a] xy\n")


def test_the_greeting_of_gloo_is_left_out(shown):
    output, text = shown
    greeting = b"[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of ... is : 1"
    output.add("a", greeting + b"\n")
    assert text() == ""
