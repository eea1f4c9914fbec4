"""The examples of README.md run, in the order in which a reader meets them."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
FENCED = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
# The example of `explain` is indented, and so is its report below.
(EXPLAINED,) = re.findall(
    r"^    from d2lperf import explain\n(?:(?:    .*)?\n)*?(?=\S)", README, re.M
)


@pytest.fixture(scope="module")
def names():
    """What the first example has defined; the others go on with it."""
    return {"__name__": "readme"}


def test_all_examples_are_here():
    assert len(FENCED) == 3
    assert [f for f in re.findall(r"^```(\w*)$", README, re.M) if f] == ["python"] * 3 + ["text"]


def test_the_first_example_compares_two_expressions(names, capsys):
    assert len(FENCED[0].splitlines()) <= 12
    exec(FENCED[0], names)
    printed = capsys.readouterr().out
    assert re.search(r"^a thousand products: \d+\.\d{4} sec$", printed, re.M)
    assert "time relative to x * x * x" in printed
    assert re.search(r"^claim (borne out|open) ?(here)?: x \*\* 3 is faster", printed, re.M)


def test_the_second_example_compares_builds(names, capsys):
    exec(FENCED[1], names)
    assert "time relative to small" in capsys.readouterr().out


def test_the_third_example_is_a_test_of_the_readers(names):
    """It raises unless the claim is borne out, which may depend on the machine's other work."""
    from d2lperf import ClaimContradicted

    exec(FENCED[2], names)
    try:
        names["test_the_new_sum_is_not_slower"]()
    except ClaimContradicted as error:
        assert "new is at most 1.1 times as long as old" in str(error)


def test_the_example_of_explain_prints_what_the_readme_shows(names, capsys):
    exec(re.sub(r"^    ", "", EXPLAINED, flags=re.M), names)
    printed = capsys.readouterr().out
    shown = README[README.index(EXPLAINED) + len(EXPLAINED) :]
    labels = re.findall(r"^    (limit|predicted|measured|called|what would help)\b", shown, re.M)
    assert labels == ["limit", "predicted", "measured", "called", "what would help"]
    for label in labels:
        assert re.search(rf"^\s*{label}\b", printed, re.M), printed
