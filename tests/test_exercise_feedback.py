"""d2lperf.exercises: what checkers are made of."""

import linecache

import numpy as np
import pytest
import torch

from d2lperf.exercises import Feedback, call_text, checker, failed, not_attempted, passed, show


@checker
def check_double(double, of=3):
    got = double(of)
    if got != 2 * of:
        return failed(f"{call_text(double, of)} gave {show(got)}")
    return passed("Twice is right.")


def learner(source, name="double"):
    """The function that a cell with this source defines, its lines known as in a notebook."""
    file = f"<cell {abs(hash(source))}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {}
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]


STUB = 'def double(x):\n    raise NotImplementedError("your code here")'
FURTHER_DOWN = """
def double(x):
    return inner(x)
class T:
    pass
def inner(x):
    error = NotImplementedError('no kernel for this device')
    raise error
"""
ANSWERS = {
    "right": (lambda x: x + x, passed("Twice is right.")),
    "wrong": (learner("def double(x):\n    return x"), failed("double(3) gave 3")),
    "none": (None, not_attempted()),
    "stub": (learner(STUB), not_attempted()),
    "not implemented further down": (
        learner(FURTHER_DOWN),
        failed(
            "Your code raised NotImplementedError: no kernel for this device "
            "(line 8: raise error), where x=3"
        ),
    ),
    "an error": (
        learner("def double(x):\n    y = x - 3\n    return x / y"),
        failed(
            "Your code raised ZeroDivisionError: division by zero (line 3: return x / y), where x=3"
        ),
    ),
    "the wrong kind": (
        17,
        failed(
            "Your answer could not be used as the task asks; trying it raised TypeError: 'int' "
            "object is not callable"
        ),
    ),
}


@pytest.mark.parametrize("answer, feedback", ANSWERS.values(), ids=ANSWERS)
def test_feedback_to_an_answer(answer, feedback):
    assert check_double(answer) == feedback


def test_exception_inside_a_library_names_the_learners_line():
    feedback = check_double(learner("import json\ndef double(x):\n    return json.loads('{')"))
    assert "JSONDecodeError" in feedback.message
    assert "line 3: return json.loads('{')" in feedback.message


def test_an_exercise_whose_value_is_none_is_not_attempted():
    assert check_double(lambda x: 0, of=None) == not_attempted()


def test_assertion_is_the_reason():
    @checker
    def check(x):
        assert x > 0, "x must be positive"
        return passed()

    assert check(-1) == failed("x must be positive")


def test_interrupt_goes_through():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_double(interrupted)


def test_checker_that_returns_something_else_is_a_mistake_of_ours():
    @checker
    def check(x):
        return x > 0

    with pytest.raises(TypeError, match=r"check must return passed\(\).*it returned bool"):
        check(1)


def test_tensors_are_compared_without_truth_value():
    @checker
    def check(x):
        return passed() if x.sum() == 3 else failed("no")

    assert check(torch.ones(3)).status == "passed"
    assert check(np.ones(2)).status == "failed"


def test_feedback_refuses_other_words_and_empty_reasons():
    with pytest.raises(ValueError, match="one of not attempted, passed, failed; got 'ok'"):
        Feedback("ok")
    with pytest.raises(ValueError, match="must say why"):
        failed("  ")


def test_html_says_the_status_in_words_and_escapes():
    text = failed("x < 3 & y")._repr_html_()
    assert "failed" in text
    assert "x &lt; 3 &amp; y" in text


@pytest.mark.parametrize(
    "value, text",
    [
        (3.5, "3.5"),
        (torch.zeros(2, 3), "Tensor of shape (2, 3) and dtype torch.float32"),
        (np.zeros(4), "ndarray of shape (4,) and dtype float64"),
        (torch.tensor(2.5), "tensor(2.5000)"),
        (dict, "the class dict"),
        ("a\n  b", r"'a\n b'"),
    ],
)
def test_show(value, text):
    assert show(value) == text


def test_show_survives_a_broken_repr():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    assert show(Broken()) == "a Broken whose repr raises RuntimeError"


def test_a_broken_shape_is_told_too():
    class Broken:
        shape, dtype = 3, "float32"

    assert show(Broken()) == "a Broken whose repr raises TypeError"
