"""Notebook 02 and its studies on a machine without a C++ compiler: they say so, and all runs."""

import nbformat
import pytest
import torch

from notebooks import build

SAYS = {
    "02-compilers-and-interpreters": "BACKEND = 'eager'",
    "deeper/02-where-the-rest-goes": "BACKEND = 'eager'",
    "deeper/02-without-python": "compiler_works = False",
}


@pytest.mark.skipif(torch.__version__ < "2.13", reason="an older torch logs what is no error")
def test_without_a_compiler_the_notebooks_say_so_and_run(monkeypatch):
    """One after the other in one kernel, each with no variables of those before."""
    # Inductor's own variable, and the notebooks': a name that no file has.
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("D2LPERF_BUDGET", "0.1")
    notebooks = [nbformat.read(build.HERE / f"{name}.ipynb", as_version=4) for name in SAYS]
    afresh = nbformat.v4.new_code_cell("%reset -f")
    whole = nbformat.v4.new_notebook()
    whole.cells = [cell for notebook in notebooks for cell in (*notebook.cells, afresh)]

    build.execute(whole, "without a compiler")

    for notebook, says in zip(notebooks, SAYS.values()):
        outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
        assert {o.name for o in outputs if o.output_type == "stream"} == {"stdout"}
        text = "".join(o.text for o in outputs if o.output_type == "stream")
        assert text.count(says) == 1
