"""Without a C or C++ compiler, the notebooks and studies of `SAYS` say so, and all runs."""

import nbformat
import pytest
import torch

from notebooks import build

SAYS = {
    "02-compilers-and-interpreters": "BACKEND = 'eager'",
    "02b-graphs-and-programs": "BACKEND = 'eager'",
    "05b-roofline": "BACKEND = 'eager'",
    "05c-latency-and-cores": "assumed: no C compiler",
    "deeper/02-where-the-rest-goes": "BACKEND = 'eager'",
    "deeper/02-without-python": "compiler_works = False",
}


@pytest.mark.skipif(torch.__version__ < "2.13", reason="an older torch logs what is no error")
@pytest.mark.parametrize("name, says", SAYS.items(), ids=[name.split("/")[-1] for name in SAYS])
def test_without_a_compiler_a_notebook_says_so_and_runs(monkeypatch, name, says):
    # Inductor's own variable, and the notebooks': a name that no file has.
    for variable in ("CC", "CXX"):
        monkeypatch.setenv(variable, "no-such-compiler")
    monkeypatch.setenv("D2LPERF_BUDGET", "0.1")
    notebook = nbformat.read(build.HERE / f"{name}.ipynb", as_version=4)

    build.execute(notebook, "without a compiler")

    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    streams = [o for o in outputs if o.output_type == "stream"]
    assert {o.name for o in streams} == {"stdout"}
    assert "".join(o.text for o in streams).count(says) == 1
