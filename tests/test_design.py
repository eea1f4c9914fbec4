"""The arrows and limits of the design: which module may import which, and how long it may be.

Read from the source, so that nothing has to be imported to be found out.
"""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import d2lperf

PACKAGE = Path(__file__).parents[1] / "d2lperf"
MOST_NAMES = 39  # public names of the package
MOST_LINES = 600  # of a file

LEAVES = {"_version", "_compat", "_messages", "measuring.stats", "formats", "timeline.intervals"}
LEAVES |= {"book", "costs", "data", "files", "installed", "progress", "requirements"}
LEAVES |= {f"counting.{name}" for name in ("classes", "counter", "places", "products")}
# Room -> other rooms, or modules of them, that it may import when it is imported itself. A room is
# a folder or a module of the package; inside a folder everything may be used, but not in a circle.
ARROWS = {
    "_version": set(),
    "_compat": {"requirements"},  # internal names of torch and Python
    "_messages": set(),
    "progress": set(),
    "requirements": set(),
    "data": {"progress"},
    "book": set(),
    "device": {"_compat"},
    "files": set(),
    "installed": set(),
    "formats": set(),
    "machine": {"_version", "device", "formats"},
    "stopwatch": {"device", "formats"},
    "plotting": {"formats"},
    "measuring": {"_version", "device", "files", "formats", "machine", "progress"},
    "timeline": {"_compat", "device", "files", "formats"},
    "processes": {
        "_compat",
        "device",
        "installed",
        "machine",
        "measuring.neighbours",
        "measuring.sampling",
    },
    "costs": set(),
    "counting": {"_compat"},
    "peak": set(),
    "ceilings": {
        "_compat",
        "counting",
        "device",
        "formats",
        "machine",
        "measuring",
        "peak",
        "progress",
    },
    "datasheets": {"ceilings"},
    "roofline": {"ceilings", "counting", "plotting"},
    "explaining": {
        "_compat",
        "ceilings",
        "counting",
        "device",
        "formats",
        "installed",
        "measuring",
        "roofline",
    },
    "magics": {"measuring", "stopwatch"},
    "__main__": {"datasheets", "explaining", "formats", "machine"},
    "exercises": {"installed"},
    "": {"_messages", "_version"},  # the package itself: its list of names, loaded at first use
}
# These are functions of their arguments alone: no clock, no printing, no device.
PURE = {"measuring.stats", "timeline.intervals", "timeline.lanes"}
# What is imported inside a function, when it is called. Each is here for a reason.
LATER = {
    ("measuring.results", "plotting"): "a result's own .plot()",
    ("measuring.sweeps", "plotting"): "a sweep's own .plot()",
    ("timeline.timeline", "plotting"): "a timeline's own .plot()",
}
# The checkers of a notebook build on what the notebook uses. Nothing builds on them.
FOR_CHECKERS = {"", *ARROWS} - {"magics", "book"}
# Folders beside the package: they import d2lperf, never the reverse.
OUTSIDE = {"tests", "notebooks", "benchmarks", "docs", "conftest", "build"}


def module_of(path):
    """`d2lperf/exercises/nb01.py` -> "exercises.nb01"; the package itself is ""."""
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {
    module_of(path): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))
}


def _name_in_package(name, modules):
    """`d2lperf.data.digits` -> "data": the module that holds it."""
    name = name.partition(".")[2]
    while name not in modules:
        name = name.rpartition(".")[0]
    return name


def _imported(node):
    """The full names that one statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert not node.level, "import from d2lperf by its full name"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def imports(source, modules=SOURCES):
    """(name, where) of all that is imported: modules of d2lperf without "d2lperf.", others whole.

    `where` is "d2lperf at once", "d2lperf later" (inside a function), or "elsewhere". What
    `from d2lperf import x` takes is the module x, or else the package itself ("").
    """
    found = set()

    def visit(node, later):
        for name in _imported(node):
            if name.split(".")[0] == "d2lperf":
                when = "d2lperf later" if later else "d2lperf at once"
                found.add((_name_in_package(name, modules), when))
            else:
                found.add((name, "elsewhere"))
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            return  # for readers of types; not imported
        inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            visit(child, later or inside)

    visit(ast.parse(source), False)
    return found


def ours(module, when, source=None):
    """Modules of d2lperf that a module imports at once, or later."""
    found = imports(SOURCES[module] if source is None else source)
    return {name for name, where in found if where == f"d2lperf {when}"}


PLAIN = [m for m in SOURCES if not m.startswith("exercises.")]
CHECKERS = [m for m in SOURCES if m.startswith("exercises.nb")]


def room(module):
    return module.split(".")[0]


def allowed(module, other):
    """Whether the design lets a module import another one at the top."""
    if module in PURE:
        return other in LEAVES and room(other) in (room(module), "formats")
    return room(other) == room(module) != "" or bool(
        {other, room(other)} & ARROWS.get(room(module), set())
    )


def test_a_module_imports_what_the_design_says():
    assert {room(module) for module in PLAIN} <= set(ARROWS), "give it a place in ARROWS"
    pairs = {(module, other) for module in PLAIN for other in ours(module, "at once")}
    beyond = {pair for pair in pairs if not allowed(*pair)}
    assert not beyond, "the design has no arrow for these imports"


def test_what_is_imported_later_is_listed():
    later = {(module, other) for module in PLAIN for other in ours(module, "later")}
    beyond = {(m, other) for m, other in later if room(m) != room(other) and not allowed(m, other)}
    assert beyond == set(LATER), "list it in LATER with its reason, or import it at the top"


def test_leaves_know_no_other_room():
    for module in LEAVES:
        assert ours(module, "at once") | ours(module, "later") <= LEAVES, module


def test_checkers_use_no_other_checkers():
    for module in CHECKERS:
        found = ours(module, "at once") | ours(module, "later")
        assert {room(other) for other in found} <= FOR_CHECKERS, module
        assert not found & set(CHECKERS), module


def test_nothing_imports_a_checker_or_what_stands_outside():
    for module in PLAIN:
        assert not (ours(module, "at once") | ours(module, "later")) & set(CHECKERS), module
        names = {name for name, where in imports(SOURCES[module]) if where == "elsewhere"}
        assert not {name.split(".")[0] for name in names} & OUTSIDE, module


def test_there_are_no_circles():
    graph = {module: ours(module, "at once") - {module} for module in SOURCES}
    folders = {room(m) for m in SOURCES if "." in m}
    # `from d2lperf.plotting import style` takes the folder by the way; its list is no circle.
    for module in graph:
        graph[module] -= {room(module)} & folders
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert set(order) == set(graph)
    # A module that took a name from the package would close a circle.
    assert not [m for m in PLAIN if m and "" in ours(m, "at once") | ours(m, "later")]


# ---------------------------------------------------------------------------------- limits


def test_a_file_holds_one_idea():
    long = {module for module, text in SOURCES.items() if text.count("\n") > MOST_LINES}
    assert not long, f"more than {MOST_LINES} lines"


def test_the_confidence_has_one_home():
    rooms = {m for m, text in SOURCES.items() if m.startswith("measuring.") and "= 0.95" in text}
    # What is a function of its arguments alone knows no defaults of ours.
    assert rooms == {"measuring.defaults", "measuring.stats"}


def test_few_names_are_public():
    assert len(d2lperf.__all__) <= MOST_NAMES
