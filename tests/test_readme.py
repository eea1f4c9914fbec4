"""The examples of README.md and docs/your-script.md run, in the order in which one meets them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = (ROOT / "docs" / "your-script.md").read_text(encoding="utf-8")


def examples(page):
    return re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)


README_EXAMPLES = examples((ROOT / "README.md").read_text(encoding="utf-8"))
SCRIPT_EXAMPLES = examples(SCRIPT)


@pytest.fixture(scope="module")
def readme():
    """What the first example of README.md has defined; the other goes on with it."""
    return {"__name__": "readme"}


@pytest.fixture(scope="module")
def script():
    """The same for docs/your-script.md."""
    return {"__name__": "script"}


def test_all_examples_are_here():
    assert len(README_EXAMPLES) == len(SCRIPT_EXAMPLES) == 2


def test_the_first_example_compares_two_expressions(readme, capsys):
    assert len(README_EXAMPLES[0].splitlines()) <= 12
    exec(README_EXAMPLES[0], readme)
    printed = capsys.readouterr().out
    assert re.search(r"^a thousand products: \d+\.\d{4} sec$", printed, re.M)
    assert "time relative to x * x * x" in printed
    assert re.search(r"^claim (borne out|open) ?(here)?: x \*\* 3 is faster", printed, re.M)


def test_the_second_example_is_a_test_of_the_readers(readme):
    """Both are the same sum: the claim is borne out, or open where other work leaves no time."""
    from d2lperf import ClaimContradicted

    exec(README_EXAMPLES[1], readme)
    try:
        readme["test_the_new_sum_is_not_slower"]()
    except ClaimContradicted as error:
        assert str(error).startswith("claim open here: new is at most 1.1 times as long as old")


def test_builds_are_compared(script, capsys):
    exec(SCRIPT_EXAMPLES[0], script)
    assert "time relative to small" in capsys.readouterr().out


def test_the_example_of_explain_prints_what_the_page_shows(script, capsys):
    exec(SCRIPT_EXAMPLES[1], script)
    printed = capsys.readouterr().out
    (shown,) = re.findall(r"^```text\n(.*?)^```", SCRIPT, re.M | re.S)
    labels = re.findall(r"^(limit|predicted|measured|called|what would help)\b", shown, re.M)
    assert labels == ["limit", "predicted", "measured", "called", "what would help"]
    for label in labels:
        assert re.search(rf"^\s*{label}\b", printed, re.M), printed
