"""Stamp, execute and normalise notebooks: `python notebooks/build.py [NN ...] [--stamp|--check]`.

Each notebook is executed from top to bottom in a fresh kernel, as the tests do it, and written back
in one form, so that two runs differ only in what was measured. A notebook that fails stays as it
was. Notebooks stand in notebooks/, deeper/ and frameworks/; those of frameworks/ name a kernel of
their own (`d2lperf-NAME`), all others run in the running interpreter.

`--record` executes course and studies and stores what their predictions came to in
notebooks/recorded/, in a file named after this machine; no notebook changes. `--record-stored`
takes the stored outputs of the last `make notebooks` and executes nothing. `--stamp` then shows the
record in the notebooks.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import nbformat
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from tqdm import tqdm

from d2lperf.measuring import recorded
from d2lperf.measuring.predictions import Predictions

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "figures"
RECORDED = HERE / "recorded"
FOLDERS = ("", "deeper", "frameworks")

# The repository's address, "" where there is none: `make stamp REPO=owner/name` writes it.
PROJECT = (HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
REPOSITORY = "".join(re.findall(r'(?m)^Repository = "(.+)"$', PROJECT))
ADDRESS = f"git+{REPOSITORY}" if REPOSITORY else ""  # as pip asks for it
GITHUB, COLAB = "https://github.com/", "https://colab.research.google.com/"

# The set-up cell of every notebook. `origin` is None where Python takes a folder named d2lperf,
# such as a clone, for a package without files. The torch that is there is named to pip, so that pip
# fails rather than replace it by another one, which may take gigabytes.
SETUP = """\
#@title Set-up
# Finds d2lperf around this notebook, or installs it (notebooks/build.py writes this cell).
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

if getattr(importlib.util.find_spec("d2lperf"), "origin", None) is None:
    places = [Path.cwd() / "d2lperf", Path.cwd(), *Path.cwd().parents]
    clones = [str(p) for p in places if (p / "d2lperf" / "__init__.py").is_file()]
    sys.path[:0] = clones[:1]
    address = os.environ.get("D2LPERF_REPO") or "@ADDRESS@"
    todo = (
        "Open this notebook inside a clone of d2lperf's repository, or set the environment variable"
        " D2LPERF_REPO to what pip can install (git+https://... or a folder). Then run this cell."
    )
    if not clones and not address:
        raise ModuleNotFoundError("d2lperf is not here. " + todo)
    if not clones:
        keep = [f"torch=={t.version}" for t in importlib.metadata.distributions(name="torch")]
        pip = [sys.executable, "-m", "pip", "install", address, *keep]
        done = subprocess.run(pip, capture_output=True, text=True)
        if done.returncode:
            said = (done.stdout + done.stderr)[-1500:]
            hint = f"pip could not install d2lperf from {address}. Is there a network? Is torch new"
            raise ModuleNotFoundError(f"{hint} enough? {todo}\\n\\npip said:\\n{said}")
# Before torch is imported: it also keeps messages about torch's installation out of the outputs.
importlib.import_module("d2lperf.requirements").check()""".replace("@ADDRESS@", ADDRESS)
FOLDED = {"jupyter": {"source_hidden": True}, "cellView": "form"}

PYTHON = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
KEPT_CELL_METADATA = ("tags", "jupyter", "cellView")
WIDGET = "application/vnd.jupyter.widget-view+json"
OWN_KERNEL = "d2lperf-"  # how the name of a kernel begins that is not the running interpreter
ATTACHMENT = re.compile(r"!\[[^\]]*\]\(attachment:([\w.-]+\.png)\)")


class BuildError(Exception):
    """A notebook cannot be built; the message says which, where and what to do."""


# ---------------------------------------------------------------------------- stamping


def tags(cell) -> list[str]:
    """Return the tags of a cell; no tags are an empty list."""
    return list(cell.get("metadata", {}).get("tags", []))


def stamp(notebook, name: str = "notebook"):
    """Write the set-up cell, fold the cells tagged `hide-input` and embed the drawings.

    A Markdown cell that says `![...](attachment:NAME.png)` gets notebooks/figures/NAME.png. The
    stored tables of predictions show what is recorded by now.

    Args:
        notebook: the notebook, changed in place.
        name: what to call it in an error.

    Returns:
        The notebook.

    Raises:
        BuildError: not exactly one code cell has the tag `setup`, or a drawing is missing.
    """
    found = [c for c in notebook.cells if c.cell_type == "code" and "setup" in tags(c)]
    if len(found) != 1:
        raise BuildError(
            f"{name}: found {len(found)} code cells with the tag 'setup'; "
            "give this tag to the first code cell, and to no other"
        )
    found[0].source = SETUP
    found[0].metadata["tags"] = ["setup", "hide-input"]
    for cell in notebook.cells:
        if "hide-input" in tags(cell):
            cell.metadata.update(nbformat.from_dict(FOLDED))
        if cell.cell_type != "markdown":
            continue
        wanted = {n: FIGURES / n for n in ATTACHMENT.findall(cell.source)}
        missing = [n for n, path in wanted.items() if not path.is_file()]
        if missing:
            raise BuildError(f"{name}: there is no drawing {missing[0]} in {FIGURES.name}/")
        cell.pop("attachments", None)
        if wanted:
            images = {n: base64.b64encode(path.read_bytes()) for n, path in wanted.items()}
            images = {n: {"image/png": image.decode()} for n, image in images.items()}
            cell["attachments"] = nbformat.from_dict(images)
    for output in tables_of_predictions(notebook):
        shown = predictions_in(output)
        output.data.update({"text/html": shown._repr_html_(), "text/plain": str(shown)})
    return notebook


def badge(notebook, path: Path):
    """Put a link to Colab under the title, or take it out where the repository has no address.

    Colab has no kernel for the notebooks in frameworks/.

    Args:
        notebook: the notebook, changed in place.
        path: its file.

    Returns:
        The notebook.
    """
    notebook.cells = [c for c in notebook.cells if "badge" not in tags(c)]
    ours = HERE in path.parents and path.parent.name != "frameworks"
    if ours and REPOSITORY.startswith(GITHUB):
        place = path.relative_to(HERE.parent).as_posix()
        file = f"{REPOSITORY.replace(GITHUB, 'github/')}/blob/main/{place}"
        link = f"[![Open in Colab]({COLAB}assets/colab-badge.svg)]({COLAB}{file})"
        # The web page has its own launch links: MyST-NB leaves out a cell tagged remove-cell.
        cell = nbformat.v4.new_markdown_cell(link, metadata={"tags": ["badge", "remove-cell"]})
        notebook.cells.insert(1, cell)
    return notebook


def tables_of_predictions(notebook) -> list:
    """Return the stored outputs in which `predictions()` has left its numbers."""
    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    return [output for output in outputs if "d2lperf" in output.get("metadata", {})]


def predictions_in(output) -> Predictions:
    """Return the predictions that an output was made from."""
    return Predictions.from_dict(output.metadata["d2lperf"])


# ------------------------------------------------------------------------- normalising


def as_a_terminal_shows(text: str) -> str:
    r"""Return text after its carriage returns and backspaces, without spaces at line ends.

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
    """Return outputs in one form, with a single stream of each name, as nbval joins them.

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
            output.data.pop(WIDGET, None)  # dead without its kernel
            if "text/plain" in output.data:
                output.data["text/plain"] = as_a_terminal_shows(output.data["text/plain"])
            if not output.data:
                continue
            if output.output_type == "execute_result":
                output.execution_count = execution_count
        elif output.output_type == "error":
            # The frames name files of this machine.
            output.traceback = [f"{output.ename}: {output.evalue}"]
        normal.append(output)
    for stream in streams.values():
        stream.text = as_a_terminal_shows(stream.text)
    return normal


def cell_id(cell, taken: set[str]) -> str:
    """Return an identifier that depends on the cell alone, so that it survives a conversion.

    Args:
        cell: the cell.
        taken: identifiers given so far; the new one is added.

    Returns:
        The tag of the set-up, the badge or an exercise as a word, otherwise a digest of the source.
    """
    named = [t for t in tags(cell) if t in ("setup", "badge") or t.startswith("exercise:")]
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
    """Bring a notebook into the one form that is stored; doing it twice changes nothing.

    Metadata are those that JupyterLab writes when the kernel starts: it would call a notebook with
    less changed. The version of Python is that of the stored outputs. Cells keep tags, folding and
    attachments; sources and printed text have no spaces at line ends; executed cells are counted
    from 1.

    Args:
        notebook: the notebook, changed in place.

    Returns:
        The notebook.
    """
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    kernel = notebook.metadata.get("kernelspec", {})
    kernel = kernel if kernel.get("name", "").startswith(OWN_KERNEL) else PYTHON
    language = notebook.metadata.get("language_info", {})
    version = language.get("version", IPythonKernel.language_info["version"])
    language = {**IPythonKernel.language_info, "version": version}
    metadata = {"kernelspec": kernel, "language_info": language}
    notebook.metadata = nbformat.from_dict(metadata)
    taken: set[str] = set()
    count = 0
    notebook.cells = [c for c in notebook.cells if c.source.strip()]
    for cell in notebook.cells:
        cell.source = re.sub(r"(?m)[ \t]+$", "", cell.source).strip("\n")
        metadata = {k: cell.metadata[k] for k in KEPT_CELL_METADATA if cell.metadata.get(k)}
        cell.metadata = nbformat.from_dict(metadata)
        cell["id"] = cell_id(cell, taken)
        if cell.cell_type == "code":
            if cell.execution_count is not None:
                count += 1
                cell.execution_count = count
            cell.outputs = normal_outputs(cell.outputs, count)
    return notebook


def to_text(notebook) -> str:
    """Return the notebook as it stands in its file."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook, indent=1, ensure_ascii=False).rstrip("\n") + "\n"


def write(path: Path, text: str) -> None:
    """Replace a file at once: a reader sees the old text or the new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(name, path.stat().st_mode if path.exists() else 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


# --------------------------------------------------------------------------- executing


class Kernels(KernelSpecManager):
    """Every name means the running interpreter, except those that begin with `d2lperf-`."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return the specification of a kernel."""
        if kernel_name.startswith(OWN_KERNEL):
            return super().get_kernel_spec(kernel_name)
        return KernelSpec(resource_dir=RESOURCES, **get_kernel_dict())


def over_files() -> dict[str, str]:
    """Return arguments of a kernel manager with which it talks to its kernel over files.

    A TCP port is chosen before the kernel starts. Another process may take it in this time: the
    kernel then "died before replying".
    """
    if sys.platform == "win32":
        return {}
    path = Path(tempfile.gettempdir(), f"kernel-{uuid.uuid4().hex[:12]}.json")
    return {"transport": "ipc", "connection_file": str(path)}


def kernel_environment(strict: bool) -> dict[str, str]:
    """Return a kernel's environment: without bars; strict as in the tests (conftest.py), or not."""
    environment = dict(os.environ, D2LPERF_STRICT="1" if strict else "0", TQDM_DISABLE="1")
    environment.pop("MPLBACKEND", None)
    return environment


def execute(
    notebook, name: str, *, folder: Path = HERE, timeout_s: float = 300, strict: bool = True
) -> None:
    """Run all code cells in a fresh kernel and put their outputs into the notebook.

    History is off, as in nbval: a trailing `;` hides nothing and there is no `_`.

    Args:
        notebook: the notebook, changed in place.
        name: what to call it in an error.
        folder: working directory of the kernel.
        timeout_s: longest time for one cell, in seconds.
        strict: a claim that this machine contradicts raises.

    Raises:
        BuildError: a cell raised or took too long, its kernel died or is not there, or it left
            files behind.
    """
    kernel = notebook.metadata.get("kernelspec", {}).get("name", "python3")
    if kernel.startswith(OWN_KERNEL) and kernel not in KernelSpecManager().find_kernel_specs():
        raise BuildError(f"{name}: its kernel {kernel} is not installed: make frameworks")
    manager = AsyncKernelManager(kernel_name=kernel, kernel_spec_manager=Kernels(), **over_files())
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=timeout_s,
        store_widget_state=False,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.owns_km = True  # so that it ends the kernel when all cells have run
    code = [(i, c) for i, c in enumerate(notebook.cells) if c.cell_type == "code"]
    before = set(folder.iterdir())
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}  # its log, not the cells'
    with client.setup_kernel(env=kernel_environment(strict), **quiet):
        # The kernels of frameworks/ have this Python, too.
        notebook.metadata["language_info"] = dict(IPythonKernel.language_info)
        for count, (index, cell) in enumerate(tqdm(code, desc=name, unit="cell", leave=False), 1):
            cell.outputs, cell.execution_count = [], None
            where = f"{name}: cell {index} (code cell {count})"
            try:
                client.execute_cell(cell, index, execution_count=count, store_history=False)
            except CellExecutionError as error:
                raise BuildError(
                    f"{where} failed; the file is as it was.\n\n{error.traceback or error}"
                ) from None
            except (CellTimeoutError, DeadKernelError) as error:
                raise BuildError(
                    f"{where}: {type(error).__name__} after at most {timeout_s:g} s; the file is "
                    f"as it was.\n\n{cell.source}"
                ) from None
            cell.execution_count = count
    litter = sorted(p.name for p in set(folder.iterdir()) - before if not p.name.startswith("."))
    if litter:
        raise BuildError(
            f"{name}: it left {', '.join(litter)} beside the notebooks; "
            "write into tempfile.TemporaryDirectory() instead"
        )


# -------------------------------------------------------------------------- recording


def run_of(path: Path, *, run: bool, timeout_s: float = 300) -> Predictions | None:
    """Return what the predictions of a notebook came to; None where it makes none.

    Args:
        path: the notebook; its file is not changed.
        run: execute it; otherwise its stored outputs count. A claim that this machine contradicts
            is no error: it is what a record is for.
        timeout_s: longest time for one cell, in seconds.

    Raises:
        BuildError: the notebook failed, or its stored outputs have no predictions that can be read.
    """
    notebook = nbformat.read(path, as_version=4)
    if run:
        stamp(notebook, path.stem)
        execute(notebook, path.stem, folder=path.parent, timeout_s=timeout_s, strict=False)
    found = tables_of_predictions(notebook)
    if found:
        return predictions_in(found[-1])
    if any("predictions()" in cell.source for cell in notebook.cells):
        place = "" if path.parent == HERE else f"{path.parent.name}/"
        todo = f"execute it first: make notebooks NN={place}{path.stem.split('-')[0]}"
        raise BuildError(f"{path.stem}: its stored outputs have no predictions to read; {todo}")
    return None


def record(runs: dict[str, Predictions], folder: Path) -> Path:
    """Store what the predictions of notebooks came to, in a file named after the machine.

    Args:
        runs: the predictions of each notebook, by its name.
        folder: where the file goes; it is made if needed.

    Returns:
        The file.

    Raises:
        BuildError: there is no run, or the runs are from several machines.
    """
    files = {recorded.file_name(shown.card): name for name, shown in runs.items()}
    if len(files) != 1:
        found = "; ".join(f"{name} on {file[:-5]}" for file, name in files.items()) or "no run"
        raise BuildError(f"a record is of one machine, but found {found}: run make record")
    (file,) = files
    card = next(iter(runs.values())).card
    day = max(shown.day for shown in runs.values())
    notebooks = {name: shown.measured_here() for name, shown in runs.items()}
    folder.mkdir(exist_ok=True)
    write(folder / file, recorded.to_text(day, card, notebooks))
    return folder / file


def record_course(*, run: bool, timeout_s: float) -> int:
    """Record course and studies; return 0 when all are in the record, 1 when one is not."""
    runs, status = {}, 0
    for path in [p for p in find([]) if p.parent.name != "frameworks"]:
        try:
            shown = run_of(path, run=run, timeout_s=timeout_s)
        except BuildError as error:
            print(error, file=sys.stderr, flush=True)
            status = 1
            continue
        if shown is not None:
            # "deeper/" before the name of a study
            name = path.relative_to(HERE).with_suffix("").as_posix()
            runs[name] = shown
            print(f"{name}: {len(shown.measured_here())} predictions", flush=True)
    try:
        print(f"recorded in {record(runs, RECORDED).relative_to(HERE.parent)}")
    except BuildError as error:
        print(error, file=sys.stderr)
        status = 1
    return status


# -------------------------------------------------------------------------- the program


def find(wanted: list[str], folder: Path = HERE) -> list[Path]:
    """Return the notebooks asked for, in order.

    Args:
        wanted: beginnings of paths below notebooks/, such as "01", "deeper" or "deeper/09";
            none means all.
        folder: the folder notebooks/.

    Raises:
        BuildError: no notebook begins like this.
    """
    everything = [p for sub in FOLDERS for p in sorted((folder / sub).glob("*.ipynb"))]
    names = {p.relative_to(folder).as_posix(): p for p in everything}
    found = set(everything) if not wanted else set()
    for one in wanted:
        start = one.removeprefix(f"{folder.name}/")
        hits = [path for name, path in names.items() if name.startswith(start)]
        if not hits:
            there = ", ".join(names) or "none"
            raise BuildError(f"asked for notebook {one!r}; notebooks in {folder.name}/: {there}")
        found.update(hits)
    return [p for p in everything if p in found]


def build(path: Path, *, run: bool = True, check: bool = False, timeout_s: float = 300) -> str:
    """Stamp, execute and normalise one notebook.

    Args:
        path: the notebook.
        run: execute it; otherwise only the stamped cells and the form are renewed.
        check: write nothing, and do not execute.
        timeout_s: longest time for one cell, in seconds.

    Returns:
        One line that says what was done.

    Raises:
        BuildError: the notebook failed, its folder is read-only, or `check` found that it is not
            in its final form.
    """
    if not check and not os.access(path.parent, os.W_OK):
        raise BuildError(
            f"the notebooks in {path.parent.name} cannot be stored: the folder is read-only. "
            "Give yourself the right to write there, or build a copy of the folder."
        )
    before = path.read_text(encoding="utf-8")
    notebook = badge(stamp(nbformat.reads(before, as_version=4), path.stem), path)
    notebook = normalise(notebook)
    start = time.monotonic()
    if run and not check:
        execute(notebook, path.stem, folder=path.parent, timeout_s=timeout_s)
        normalise(notebook)
    after = to_text(notebook)
    if check and after != before:
        todo = "run: python notebooks/build.py --stamp"
        raise BuildError(f"{path.stem}: not in its final form; {todo}")
    if check:
        return f"{path.stem}: in its final form"
    if after != before:
        write(path, after)
    count = sum(c.cell_type == "code" for c in notebook.cells)
    done = f"executed in {time.monotonic() - start:.0f} s" if run else "stamped"
    return f"{path.stem}: {count} code cells, {done}"


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0 when every notebook was built, 1 when one was not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", metavar="NN", help="beginning of a name; none: all")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--stamp", action="store_true", help="renew set-up and form, run nothing")
    group.add_argument("--check", action="store_true", help="write nothing; fail if not current")
    group.add_argument(
        "--record", action="store_true", help="run the notebooks, store their numbers"
    )
    group.add_argument("--record-stored", action="store_true", help="the same from stored outputs")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one cell")
    options = parser.parse_args(arguments)
    os.environ.pop("D2LPERF_BUDGET", None)  # what is stored was measured in full length
    if options.record or options.record_stored:
        if options.notebooks:
            parser.error("a record is of all notebooks: name none")
        return record_course(run=options.record, timeout_s=options.timeout)
    how = {"run": not options.stamp, "check": options.check, "timeout_s": options.timeout}
    status = 0
    try:
        paths = find(options.notebooks)
    except BuildError as error:
        parser.exit(1, f"{error}\n")
    for path in paths:
        try:
            print(build(path, **how), flush=True)
        except BuildError as error:
            print(error, file=sys.stderr, flush=True)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
