"""The arrows of the design: which module of d2lperf may import which, and when.

Read from the source, so that nothing has to be imported to be found out.
"""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "d2lperf"

# module -> what it may import when it is imported itself
ARROWS = {
    "_version": set(),
    "stats": set(),
    "plot": set(),
    "data": set(),
    "book": set(),
    "device": set(),
    "results": {"stats", "device"},
    "benchmark": {"stats", "device", "results"},
    "isolate": {"benchmark"},
    "timeline": {"device", "results"},
    "roofline": {"benchmark", "device"},
    "launch": {"device"},
    "magics": {"benchmark"},
    "exercises": set(),
    "": {"_version", "benchmark", "device", "results"},  # the package itself: its list of names
}
LEAVES = ("stats", "plot", "data", "book")
# What is imported inside a function, when it is called. Each is here for a reason.
LATER = {
    ("benchmark", "isolate"): "compare(isolated=True); isolate itself builds on benchmark",
    ("results", "plot"): "a result's own .plot()",
    ("timeline", "plot"): "a timeline's own .plot()",
    ("device", "_version"): "the machine's card names the version",
    ("results", "_version"): "a file names the version that wrote it",
    ("timeline", "_version"): "a file names the version that wrote it",
}
# The checkers of a notebook build on what the notebook uses. Nothing builds on them.
EXERCISES = {"exercises", "benchmark", "results", "device", "stats", "timeline", "launch"}
# Folders beside the package: they import d2lperf, never the reverse.
OUTSIDE = {"tests", "notebooks", "benchmarks", "docs", "conftest", "clocks", "build", "verdicts"}


def module_of(path):
    """`d2lperf/exercises/nb01.py` -> "exercises.nb01"; the package itself is ""."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {
    module_of(path): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))
}


def imports(source, modules=SOURCES):
    """(name, where) of all that is imported: modules of d2lperf without "d2lperf.", others whole.

    `where` is "d2lperf at once", "d2lperf later" (inside a function), or "elsewhere". What
    `from d2lperf import x` takes is the module x, or else the package itself ("").
    """
    found = set()

    def add(name, later):
        if name.split(".")[0] != "d2lperf":
            found.add((name, "elsewhere"))
            return
        name = name.partition(".")[2]
        while name not in modules:  # a name in a module
            name = name.rpartition(".")[0]
        found.add((name, "d2lperf later" if later else "d2lperf at once"))

    def visit(node, later):
        if isinstance(node, ast.Import):
            for alias in node.names:
                add(alias.name, later)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "import from d2lperf by its full name"
            for alias in node.names:
                add(f"{node.module}.{alias.name}", later)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            return  # for readers of types; not imported
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            later = True
        for child in ast.iter_child_nodes(node):
            visit(child, later)

    visit(ast.parse(source), False)
    return found


def ours(module, when, source=None):
    """Modules of d2lperf that a module imports at once, or later."""
    found = imports(SOURCES[module] if source is None else source)
    return {name for name, where in found if where == f"d2lperf {when}"}


PLAIN = [m for m in SOURCES if not m.startswith("exercises.")]
CHECKERS = [m for m in SOURCES if m.startswith("exercises.")]


@pytest.mark.parametrize("module", PLAIN)
def test_a_module_imports_what_the_design_says(module):
    assert module in ARROWS, f"give {module!r} its place in ARROWS, and in the design"
    beyond = ours(module, "at once") - ARROWS[module]
    assert not beyond, f"{module} imports {beyond}, which the design has no arrow for"


@pytest.mark.parametrize("module", PLAIN)
def test_what_is_imported_later_is_listed(module):
    later = {(module, other) for other in ours(module, "later") - ours(module, "at once")}
    unlisted = later - set(LATER)
    assert not unlisted, f"list {unlisted} in LATER, with its reason, or import it at the top"


def test_nothing_is_listed_that_is_not_there():
    there = {(module, other) for module in PLAIN for other in ours(module, "later")}
    assert set(LATER) <= there
    assert all(LATER.values())


@pytest.mark.parametrize("module", LEAVES)
def test_leaves_know_no_other_room(module):
    assert not ARROWS[module]
    assert not ours(module, "at once") | ours(module, "later")


@pytest.mark.parametrize("module", CHECKERS)
def test_checkers_use_no_other_checkers(module):
    beyond = (ours(module, "at once") | ours(module, "later")) - EXERCISES
    assert not beyond, f"{module} imports {beyond}"


@pytest.mark.parametrize("module", SOURCES)
def test_nothing_imports_a_checker_or_what_stands_outside(module):
    assert not (ours(module, "at once") | ours(module, "later")) & set(CHECKERS)
    roots = {name.split(".")[0] for name, where in imports(SOURCES[module]) if where == "elsewhere"}
    assert not roots & OUTSIDE


@pytest.mark.parametrize("module", [m for m in SOURCES if m])
def test_modules_are_imported_by_their_names_not_as_texts(module):
    """Only the package's own list of names may look modules up by a text."""
    for node in ast.walk(ast.parse(SOURCES[module])):
        if isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
            texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            assert not [t for t in texts if str(t).startswith("d2lperf")]


def test_there_are_no_circles():
    graph = {module: ours(module, "at once") - {""} for module in SOURCES if module}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert set(order) == set(graph)
    assert order.index("stats") < order.index("results") < order.index("benchmark")
    # The package imports them all; a module that took a name from the package would close a circle.
    assert not [m for m in graph if "" in ours(m, "at once") | ours(m, "later")]


def test_the_package_imports_nothing_heavy_by_itself():
    assert ours("", "at once") == ARROWS[""]


# ----------------------------------------------------------------------- the reading itself


@pytest.mark.parametrize(
    "source, found",
    [
        ("import d2lperf.stats", {("stats", "d2lperf at once")}),
        ("import d2lperf as d", {("", "d2lperf at once")}),
        ("from d2lperf import stats", {("stats", "d2lperf at once")}),
        ("from d2lperf import compare", {("", "d2lperf at once")}),
        ("from d2lperf.stats import median", {("stats", "d2lperf at once")}),
        ("from d2lperf.exercises import nb01", {("exercises.nb01", "d2lperf at once")}),
        ("try:\n    import d2lperf.plot\nexcept E:\n    pass", {("plot", "d2lperf at once")}),
        ("class A:\n    import d2lperf.plot", {("plot", "d2lperf at once")}),
        ("def f():\n    from d2lperf import plot", {("plot", "d2lperf later")}),
        (
            "class A:\n    def f(self):\n        if x:\n            import d2lperf.plot",
            {("plot", "d2lperf later")},
        ),
        ("import os.path", {("os.path", "elsewhere")}),
        ("from build import stamp", {("build.stamp", "elsewhere")}),
        ("if TYPE_CHECKING:\n    from d2lperf import plot", set()),
    ],
)
def test_imports_are_read_right(source, found):
    assert imports(source) == found


def test_an_import_from_the_folder_is_refused():
    with pytest.raises(AssertionError, match="full name"):
        imports("from . import stats")
