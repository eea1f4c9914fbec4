"""Notebook 02 on a machine without a C++ compiler: it says so once, and all the rest runs."""

import nbformat

from notebooks import build


def test_notebook_02_runs_and_says_what_it_leaves_out(monkeypatch):
    # Inductor's own variable, and the notebook's: a name that no file has.
    monkeypatch.setenv("CXX", "no-such-compiler")
    path = build.HERE / "02-compilers-and-interpreters.ipynb"
    notebook = nbformat.read(path, as_version=4)

    build.execute(notebook, path.stem)

    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    streams = {o.name for o in outputs if o.output_type == "stream"}
    text = "".join(o.text for o in outputs if o.output_type == "stream")
    assert streams == {"stdout"}
    assert text.count("No working C++ compiler here") == 1
    assert text.count("No C++ program here") == 1
    assert "compiled: same result" not in text
    assert "scripted is faster than eager" in text
