"""Notebook 02 and its studies on a machine without a C++ compiler: they say so, and all runs."""

import nbformat
import pytest

from notebooks import build

SAYS = {
    "02-compilers-and-interpreters": "BACKEND = 'eager'",
    "deeper/02-where-the-rest-goes": "BACKEND = 'eager'",
    "deeper/02-without-python": "compiler_works = False",
}


@pytest.mark.parametrize("name", SAYS)
def test_without_a_compiler_a_notebook_says_so_and_runs(name, monkeypatch):
    # Inductor's own variable, and the notebooks': a name that no file has.
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("D2LPERF_BUDGET", "0.1")
    path = build.HERE / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)

    build.execute(notebook, path.stem, folder=path.parent)

    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    assert {o.name for o in outputs if o.output_type == "stream"} == {"stdout"}
    text = "".join(o.text for o in outputs if o.output_type == "stream")
    assert text.count(SAYS[name]) == 1
