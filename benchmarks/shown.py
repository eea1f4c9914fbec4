"""What a notebook shows, as functions: so that benchmarks and tests run what a reader sees.

A module beside the notebook would be a second copy, and a test to keep the two alike.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import SimpleNamespace

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def shown(notebook: str, *names: str) -> SimpleNamespace:
    """Run the cells of a notebook that define these names, after its imports; return what they are.

    Args:
        notebook: its path below notebooks/, without ".ipynb".
        names: functions, classes and variables that cells define at the top.

    Raises:
        LookupError: no cell defines one of the names.
    """
    text = (NOTEBOOKS / f"{notebook}.ipynb").read_text(encoding="utf-8")
    code = ("".join(c["source"]) for c in json.loads(text)["cells"] if c["cell_type"] == "code")
    namespace = {"__name__": "__main__"}  # so that launch sends them to workers by value
    for source in code:
        found = {name for node in ast.parse(source).body for name in _defined(node)}
        if source.startswith("#@title Imports") or found & {*names}:
            exec(compile(source, f"<{notebook}>", "exec"), namespace)
    if missing := {*names} - {*namespace}:
        raise LookupError(f"no cell of {notebook} defines {', '.join(sorted(missing))}")
    return SimpleNamespace(**{name: namespace[name] for name in names})


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [
            n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)
        ]
    return []
