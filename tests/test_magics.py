"""%%benchmark and %compare in a real IPython shell, with a compare that only looks."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("IPython")

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from d2lperf import magics
from d2lperf.measuring.equality import ResultsDiffer
from d2lperf.measuring.results import Comparison


@pytest.fixture(scope="module")
def whole_shell(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
    patch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # the shell replaces it
    hook = sys.excepthook
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell(config=config)
    shell.run_line_magic("load_ext", "d2lperf")
    yield shell
    sys.excepthook = hook
    patch.undo()


@pytest.fixture
def shell(whole_shell):
    whole_shell.reset(new_session=False)
    return whole_shell


@pytest.fixture
def seen(shell, monkeypatch):
    """What %compare hands to compare(), which isn't run."""
    seen = {}

    def compare(functions, **options):
        seen.update(options, names=list(functions), values=[f() for f in functions.values()])
        return "the comparison"

    shell.user_ns.update(x=[1, 2, 3])
    monkeypatch.setattr(magics, "compare", compare)
    return seen


def run(shell, code):
    result = shell.run_cell(code, store_history=False)
    result.raise_error()
    return result.result


# %%benchmark ------------------------------------------------------------------------------


def test_benchmark_prints_a_time_and_keeps_assignments(shell, capsys):
    run(shell, "%%benchmark the sum\ntotal = sum(range(10))\nprint('inside')")
    assert re.fullmatch(r"inside\nthe sum: 0\.\d{4} sec\n", capsys.readouterr().out)
    assert shell.user_ns["total"] == 45


def test_the_last_expression_is_the_cells_result(shell, capsys):
    assert run(shell, "%%benchmark\na = 20\na + 1") == 21
    assert run(shell, "%%benchmark\na = 20") is None
    assert run(shell, "%%benchmark\n# nothing to do") is None


def test_benchmark_lets_errors_through_after_printing_the_time(shell, capsys):
    result = shell.run_cell("%%benchmark oh\nkept = 1\n1 / 0\nlost = 2", store_history=False)
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    shown = capsys.readouterr().out
    assert re.search(r"^oh: 0\.\d{4} sec$", shown, re.MULTILINE)
    assert "1 / 0" in shown  # the traceback shows the line of the cell
    assert shell.user_ns["kept"] == 1 and "lost" not in shell.user_ns


def test_a_syntax_error_in_the_cell_is_one(shell, capsys):
    result = shell.run_cell("%%benchmark\n1 +", store_history=False)
    assert isinstance(result.error_in_exec, SyntaxError)
    assert "sec" not in capsys.readouterr().out


def test_magics_and_functions_work_inside(shell, capsys):
    run(shell, "%%benchmark {2 * 3} calls\n%precision 3\ndef f(n):\n    return n\n\nf(4)")
    assert "6 calls: 0." in capsys.readouterr().out
    assert shell.user_ns["f"](4) == 4


# %compare ---------------------------------------------------------------------------------


def test_compare_names_the_functions_after_their_expressions(shell, seen):
    assert run(shell, "%compare sum(x) ; x[0] + x[1] + x[2]") == "the comparison"
    assert seen["names"] == ["sum(x)", "x[0] + x[1] + x[2]"]
    assert seen["values"] == [6, 6]
    assert (seen["check"], seen["budget_s"], seen["baseline"]) == (True, None, None)
    assert (seen["isolated"], seen["margin"], seen["seed"]) == (False, None, None)


def test_the_example_of_the_readme(shell, seen):
    page = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"`(%compare [^`]+)`", page)
    shell.user_ns["x"] = 3
    assert run(shell, line) == "the comparison"
    assert (seen["names"], seen["values"]) == (["x * x * x", "x ** 3"], [27, 27])


def test_semicolons_braces_and_dollars_inside_expressions_are_left_alone(shell, seen):
    run(shell, "%compare len('a;  $x {x}') ; len({1: ';', 2: 3}) * 5;")
    assert seen["names"] == ["len('a;  $x {x}')", "len({1: ';', 2: 3}) * 5"]
    assert seen["values"] == [10, 10]


def test_cell_form_takes_an_expression_a_line_and_names(shell, seen):
    run(
        shell,
        "%%compare --budget 2 --baseline short\nshort: sum(x)\nlong: sum(\n    x\n)\nmax(\n  x,\n)",
    )
    assert seen["names"] == ["short", "long", "max( x, )"]
    assert seen["budget_s"] == 2 and seen["baseline"] == "short"


def test_names_are_looked_up_when_called(shell, seen):
    functions = magics.contenders("x; y: x", namespace := {"x": 1})
    namespace["x"] = 2
    assert [f() for f in functions.values()] == [2, 2]


def test_an_expression_can_race_itself(shell, seen):
    run(shell, "%compare sum(x) ; sum(x) ; sum(x)")
    assert seen["names"] == ["sum(x)", "sum(x) (2)", "sum(x) (3)"]


def test_a_minus_is_no_option(shell, seen):
    run(shell, "%compare -x[0] ; -1")
    assert seen["values"] == [-1, -1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--budget 0.5", {"budget_s": 0.5}),
        ("--budget=0.5 --no-check", {"budget_s": 0.5, "check": False}),
        ("--isolated --seed 7 --margin 0.05", {"isolated": True, "seed": 7, "margin": 0.05}),
        ("--rtol 1e-3 --atol=0.1", {"rtol": 1e-3, "atol": 0.1, "check": True}),
        ("--seed 3", {"rtol": None, "atol": None}),
        # The margin of isolated functions is wider, and compare() knows it.
        ("--isolated", {"isolated": True, "margin": None}),
        ("--baseline sum(x)", {"baseline": "sum(x)"}),
        ("--baseline 'max(x) + 3'", {"baseline": "max(x) + 3"}),
    ],
)
def test_options(shell, seen, options, expected):
    run(shell, f"%compare {options} sum(x) ; max(x) + 3")
    assert {key: seen[key] for key in expected} == expected
    assert seen["names"] == ["sum(x)", "max(x) + 3"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", r"needs two expressions or more, such as .*, but found none"),
        ("sum(x)", r"but found sum\(x\)"),
        ("sum(x) ; y = 3", "'y = 3' is a statement"),
        ("import os ; sum(x)", "'import os' is a statement"),
        ("sum(x ; max(x)", "this is not Python"),
        ("a: sum(x) ; a: max(x)", "the name 'a' is given twice"),
        ("--bugdet 3 sum(x) ; max(x)", r"cannot read '--bugdet 3 sum\(x\)'; %compare\? lists"),
        ("--budget soon sum(x) ; max(x)", "budget"),
    ],
)
def test_errors_say_what_is_wrong(shell, seen, line, words):
    result = shell.run_cell(f"%compare {line}", store_history=False)
    assert isinstance(result.error_in_exec, UsageError)
    assert re.search(words, str(result.error_in_exec), re.DOTALL)
    assert not seen


def test_an_unknown_baseline_is_told(shell):
    result = shell.run_cell("%compare --baseline first 1 ; 2", store_history=False)
    assert "the baseline 'first' is not among" in str(result.error_in_exec)


def test_a_syntax_error_in_a_cell_names_the_line():
    with pytest.raises(UsageError, match="line 2: 1 \\+"):
        magics.contenders("a()\n1 +", {})


def test_an_expression_that_raises(shell):
    result = shell.run_cell("%compare 1 / 0 ; 2", store_history=False)
    assert isinstance(result.error_in_exec, ZeroDivisionError)


def test_results_that_differ_are_compared_with_the_tolerance_given(shell):
    result = shell.run_cell("%compare --budget 0.2 1.0 ; 1.001", store_history=False)
    assert isinstance(result.error_in_exec, ResultsDiffer)
    found = run(shell, "%compare --budget 0.2 --rtol 0.01 1.0 ; 1.001")
    assert isinstance(found, Comparison) and found.checked


def test_for_real(shell):
    shell.user_ns.update(small=range(10), large=range(20000))
    found = run(shell, "%compare --budget 0.3 --no-check sum(small) ; sum(large)")
    assert isinstance(found, Comparison)
    assert found["sum(small)"].median_s < found["sum(large)"].median_s
    cell = "%%compare --budget 0.3 --baseline large\nsum(small) * 0\nlarge: sum(large) * 0"
    found = run(shell, cell)
    assert found.baseline == "large"
    assert found["sum(small) * 0"].median_s < found["large"].median_s
