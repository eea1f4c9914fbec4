"""Stamp, execute and normalise notebooks: `python notebooks/build.py [NN ...] [--stamp|--check]`.

Each notebook is executed from top to bottom in a fresh kernel of the running interpreter, as the
tests will do it, and written back in one form, so that a second run differs only in what was
measured. A notebook that fails is left as it was.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from tqdm import tqdm

HERE = Path(__file__).resolve().parent

# The set-up cell of every notebook. It prints nothing when d2lperf is installed or when the
# notebook is opened inside the repository (or beside it: a folder named d2lperf that is the
# repository looks like a package without a file, hence `origin`).
SETUP = """\
# Set-up, the same in every notebook (notebooks/build.py stamps it): find d2lperf or install it.
import importlib.util
import subprocess
import sys
from pathlib import Path

if getattr(importlib.util.find_spec("d2lperf"), "origin", None) is None:
    places = [Path.cwd() / "d2lperf", *Path.cwd().parents]
    clones = [str(p) for p in places if (p / "d2lperf" / "__init__.py").is_file()]
    sys.path[:0] = clones[:1]
    if not clones and subprocess.call([sys.executable, "-m", "pip", "install", "-q", "d2lperf"]):
        todo = "get its whole repository and open this notebook in the folder notebooks/ there"
        raise ModuleNotFoundError(f"d2lperf is not here and pip could not install it: {todo}")"""

METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}
KEPT_CELL_METADATA = ("tags", "jupyter")
WIDGET = "application/vnd.jupyter.widget-view+json"


class BuildError(Exception):
    """A notebook cannot be built; the message says which, where and what to do."""


# ---------------------------------------------------------------------------- stamping


def tags(cell) -> list[str]:
    """The tags of a cell; none is an empty list."""
    return list(cell.get("metadata", {}).get("tags", []))


def stamp(notebook, name: str = "notebook"):
    """Write the set-up cell into the one code cell that has the tag `setup`.

    Args:
        notebook: the notebook, changed in place.
        name: what to call it in an error.

    Returns:
        The notebook.

    Raises:
        BuildError: there is no such cell, or more than one.
    """
    found = [c for c in notebook.cells if c.cell_type == "code" and "setup" in tags(c)]
    if len(found) != 1:
        raise BuildError(
            f"{name}: asked for one code cell with the tag 'setup', found {len(found)}; "
            "give this tag to the first code cell, and to no other"
        )
    if found[0].source != SETUP:
        found[0].source = SETUP
    return notebook


# ------------------------------------------------------------------------- normalising


def as_a_terminal_shows(text: str) -> str:
    r"""Text after its carriage returns and backspaces, with no spaces at the end of a line.

    >>> as_a_terminal_shows("10 %\r100 %\ndone  \n")
    '100 %\ndone\n'
    """
    while True:
        shorter = re.sub(r"[^\n]\x08", "", text)
        if shorter == text:
            break
        text = shorter
    text = re.sub(r"(?m)^.*\r(?=[^\n])", "", text)
    return re.sub(r"(?m)[ \t]+$", "", text)


def normal_outputs(outputs, execution_count: int) -> list:
    """Outputs in one form: a single stream of each name, where nbval compares just that.

    Args:
        outputs: outputs of one code cell.
        execution_count: the count of the cell, for its results.

    Returns:
        New list of outputs.
    """
    normal, streams = [], {}
    for output in outputs:
        output = nbformat.from_dict(output)
        if output.output_type == "stream":
            if output.name in streams:
                streams[output.name].text += output.text
                continue
            streams[output.name] = output
        elif output.output_type in ("execute_result", "display_data"):
            output.data.pop(WIDGET, None)  # dead without its kernel, and its name is random
            if "text/plain" in output.data:
                output.data["text/plain"] = as_a_terminal_shows(output.data["text/plain"])
            if not output.data:
                continue
            if output.output_type == "execute_result":
                output.execution_count = execution_count
        elif output.output_type == "error":
            # Frames name files of this machine; a reader's own run shows them.
            output.traceback = [f"{output.ename}: {output.evalue}"]
        normal.append(output)
    for stream in streams.values():
        stream.text = as_a_terminal_shows(stream.text)
    return normal


def cell_id(cell, taken: set[str]) -> str:
    """An identifier that depends on the cell alone, so that it survives a conversion.

    Args:
        cell: the cell.
        taken: identifiers given so far; the new one is added.

    Returns:
        The exercise's or the set-up's tag as a word, otherwise a digest of the source.
    """
    named = [t for t in tags(cell) if t == "setup" or t.startswith("exercise:")]
    if named:
        stem = re.sub(r"[^a-zA-Z0-9_-]", "-", named[0])
    else:
        stem = f"{cell.cell_type}-{hashlib.sha256(cell.source.encode()).hexdigest()[:8]}"
    stem = stem[:60]
    name, count = stem, 1
    while name in taken:
        count += 1
        name = f"{stem}-{count}"
    taken.add(name)
    return name


def normalise(notebook):
    """Bring a notebook into the one form that is stored; running it twice changes nothing.

    Metadata are the least that a notebook needs; cells keep their tags; sources and printed text
    have no spaces at line ends; executed cells are counted from 1.

    Args:
        notebook: the notebook, changed in place.

    Returns:
        The notebook.
    """
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict(METADATA)
    taken: set[str] = set()
    count = 0
    cells = []
    for cell in notebook.cells:
        cell.source = re.sub(r"(?m)[ \t]+$", "", cell.source).strip("\n")
        if not cell.source.strip():
            continue
        metadata = {k: cell.metadata[k] for k in KEPT_CELL_METADATA if cell.metadata.get(k)}
        cell.metadata = nbformat.from_dict(metadata)
        cell["id"] = cell_id(cell, taken)
        if cell.cell_type == "code":
            if cell.execution_count is not None:
                count += 1
                cell.execution_count = count
            cell.outputs = normal_outputs(cell.outputs, count)
        cells.append(cell)
    notebook.cells = cells
    return notebook


def to_text(notebook) -> str:
    """The notebook as it stands in its file."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook, indent=1, ensure_ascii=False).rstrip("\n") + "\n"


def write(path: Path, text: str) -> None:
    """Put text in place of a file at once: a reader sees the old one or the new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(name, path.stat().st_mode if path.exists() else 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def check_writable(folder: Path) -> None:
    """Complain at once where a notebook could not be stored at the end.

    Raises:
        BuildError: no file can be made in the folder.
    """
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
    except OSError as error:
        raise BuildError(
            f"the notebooks in {folder.name} cannot be stored: {error.strerror or error}. "
            "Give yourself the right to write there, or build a copy of the folder."
        ) from error
    os.close(handle)
    os.unlink(name)


# --------------------------------------------------------------------------- executing


class ThisInterpreter(KernelSpecManager):
    """Every kernel name means the interpreter that runs this program."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """The kernel of the running interpreter, whatever is registered under the name."""
        return KernelSpec(resource_dir=RESOURCES, **get_kernel_dict())


def kernel_environment() -> dict[str, str]:
    """Environment of a kernel: as in the tests (conftest.py), strict and without progress bars."""
    environment = dict(os.environ, D2LPERF_STRICT="1", TQDM_DISABLE="1")
    environment.pop("MPLBACKEND", None)
    return environment


def execute(notebook, name: str, *, folder: Path = HERE, timeout_s: float = 300) -> None:
    """Run all code cells in a fresh kernel and put their outputs into the notebook.

    History is off, as in nbval: a trailing `;` hides nothing and there is no `_`.

    Args:
        notebook: the notebook, changed in place.
        name: what to call it in an error.
        folder: working directory of the kernel.
        timeout_s: longest time for one cell, in seconds.

    Raises:
        BuildError: a cell raised or took too long, its kernel died, or it left files behind.
    """
    manager = AsyncKernelManager(kernel_spec_manager=ThisInterpreter())
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=timeout_s,
        store_widget_state=False,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.owns_km = True  # so that it ends the kernel, too, when its cells have run
    code = [(i, c) for i, c in enumerate(notebook.cells) if c.cell_type == "code"]
    before = set(folder.iterdir())
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}  # its log, not the cells'
    with client.setup_kernel(env=kernel_environment(), **quiet):
        for count, (index, cell) in enumerate(tqdm(code, desc=name, unit="cell", leave=False), 1):
            cell.outputs, cell.execution_count = [], None
            try:
                client.execute_cell(cell, index, execution_count=count, store_history=False)
            except CellExecutionError as error:
                raise BuildError(
                    f"{name}: cell {index} (code cell {count}) failed; the file is as it was.\n\n"
                    f"{error.traceback or error}"
                ) from None
            except (CellTimeoutError, DeadKernelError) as error:
                raise BuildError(
                    f"{name}: cell {index} (code cell {count}): {type(error).__name__} "
                    f"after at most {timeout_s:g} s; the file is as it was.\n\n{cell.source}"
                ) from None
            cell.execution_count = count
    litter = sorted(p.name for p in set(folder.iterdir()) - before if not p.name.startswith("."))
    if litter:
        raise BuildError(
            f"{name}: it left {', '.join(litter)} beside the notebooks; "
            "write into tempfile.TemporaryDirectory() instead"
        )


# -------------------------------------------------------------------------- the program


def find(wanted: list[str], folder: Path = HERE) -> list[Path]:
    """The notebooks asked for.

    Args:
        wanted: numbers ("01"), beginnings of names or paths; none means all.
        folder: where notebooks are.

    Returns:
        Paths in order of their names.

    Raises:
        BuildError: nothing has this number or name.
    """
    everything = sorted(folder.glob("*.ipynb"))
    if not wanted:
        return everything
    found = []
    for one in wanted:
        hits = [p for p in everything if p.name.startswith(Path(one).name)]
        if not hits:
            names = ", ".join(p.stem for p in everything) or "none"
            raise BuildError(f"asked for notebook {one!r}; notebooks in {folder.name}/: {names}")
        found += [p for p in hits if p not in found]
    return sorted(found)


def build(path: Path, *, run: bool = True, check: bool = False, timeout_s: float = 300) -> str:
    """Stamp, execute and normalise one notebook.

    Args:
        path: the notebook.
        run: execute it; otherwise only the set-up cell and the form are renewed.
        check: write nothing, and do not execute.
        timeout_s: longest time for one cell, in seconds.

    Returns:
        One line that says what was done.

    Raises:
        BuildError: the notebook failed, its folder is read-only, or `check` found that it is not
            in its final form.
    """
    if not check:
        check_writable(path.parent)
    before = path.read_text(encoding="utf-8")
    notebook = stamp(nbformat.reads(before, as_version=4), path.stem)
    start = time.monotonic()
    normalise(notebook)
    if run and not check:
        execute(notebook, path.stem, folder=path.parent, timeout_s=timeout_s)
        normalise(notebook)
    after = to_text(notebook)
    if check:
        if after != before:
            todo = f"run: python notebooks/build.py {path.stem[:2]} --stamp"
            raise BuildError(
                f"{path.stem}: the set-up cell or the form is not the current one; {todo}"
            )
        return f"{path.stem}: in its final form"
    if after != before:
        write(path, after)
    count = sum(c.cell_type == "code" for c in notebook.cells)
    done = f"executed in {time.monotonic() - start:.0f} s" if run else "stamped"
    return f"{path.stem}: {count} code cells, {done}"


def main(arguments: list[str] | None = None) -> int:
    """Run the program.

    Args:
        arguments: command-line arguments; those of the process by default.

    Returns:
        0 when every notebook was built, 1 when one was not.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", metavar="NN", help="number or name; all if none")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--stamp", action="store_true", help="renew set-up and form, run nothing")
    group.add_argument("--check", action="store_true", help="write nothing; fail if not current")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one cell")
    options = parser.parse_args(arguments)
    failures = 0
    try:
        for path in find(options.notebooks):
            try:
                done = build(
                    path, run=not options.stamp, check=options.check, timeout_s=options.timeout
                )
                print(done, flush=True)
            except BuildError as error:
                print(error, file=sys.stderr, flush=True)
                failures += 1
    except BuildError as error:
        print(error, file=sys.stderr)
        failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
