"""Make the kernels of the notebooks in frameworks/: `python notebooks/kernels.py [mxnet ...]`.

Each kernel has an environment of its own, frameworks/NAME in the folder of the running one. It
holds what notebooks/frameworks/requirements-NAME.txt lists; everything else, such as torch, comes
from the running environment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

from ipykernel.kernelspec import get_kernel_dict, write_kernel_spec
from jupyter_client.kernelspec import KernelSpecManager
from packaging.specifiers import SpecifierSet

FOLDER = Path(__file__).resolve().parent / "frameworks"
PYTHON = "# Python: "  # in a list of packages: the versions of Python that they exist for
ASKED = "D2LPERF_FRAMEWORKS"  # the kernels that a test run must not miss; `make` sets it


class KernelError(Exception):
    """A kernel is not there; the message says which, why and what to do."""


def names(folder: Path = FOLDER) -> list[str]:
    """Return the frameworks that have a list of packages, such as "mxnet"."""
    return sorted(p.stem.removeprefix("requirements-") for p in folder.glob("requirements-*.txt"))


def packages(name: str, folder: Path = FOLDER) -> Path:
    """Return the file that lists the packages of a framework."""
    return folder / f"requirements-{name}.txt"


def unfit(name: str, folder: Path = FOLDER, version: tuple = sys.version_info) -> str:
    """Return why a framework cannot be installed for this version of Python; "" where it can."""
    lines = packages(name, folder).read_text(encoding="utf-8").splitlines()
    wanted = next(line.removeprefix(PYTHON) for line in lines if line.startswith(PYTHON))
    here = ".".join(map(str, version[:3]))
    return "" if here in SpecifierSet(wanted) else f"{name} needs Python {wanted}; this is {here}"


def is_there(name: str) -> bool:
    """Tell whether the kernel of a framework is registered."""
    return f"d2lperf-{name}" in KernelSpecManager().find_kernel_specs()


def why_skipped(name: str, folder: Path = FOLDER) -> str:
    """Return why the tests skip a notebook; "" where its kernel is there or was asked for."""
    asked = os.environ.get(ASKED, "").split()
    reason = unfit(name, folder) if name in names(folder) else ""
    if is_there(name) or name in asked or (asked == ["all"] and not reason):
        return ""
    return reason or f"no kernel for {name}: run make frameworks FRAMEWORK={name}"


def make(name: str, folder: Path = FOLDER) -> str:
    """Make an environment and register its kernel, unless both are there and up to date.

    Args:
        name: the framework, such as "mxnet".
        folder: where the notebooks and their lists of packages are.

    Returns:
        One line that says what was done.

    Raises:
        KernelError: the packages cannot be installed here.
    """
    if reason := unfit(name, folder):
        raise KernelError(f"{reason}. Another one: make clean; make frameworks PYTHON=python3.11")
    wanted = packages(name, folder).read_text(encoding="utf-8")
    place = Path(sys.prefix) / "frameworks" / name
    ready = place / ".ready"  # holds what was installed
    if is_there(name) and ready.is_file() and ready.read_text(encoding="utf-8") == wanted:
        return f"{name}: its kernel is there"
    print(f"{name}: installing", flush=True)
    start = time.monotonic()
    shutil.rmtree(place, ignore_errors=True)
    builder = venv.EnvBuilder(symlinks=os.name != "nt")
    builder.create(place)
    python = builder.ensure_directories(place).env_exe
    where = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    own = subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip()
    shared = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    Path(own, "shared.pth").write_text("\n".join([*shared, ""]), encoding="utf-8")
    pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "-r"]
    if subprocess.call([*pip, str(packages(name, folder))]):
        raise KernelError(f"{name}: its packages cannot be installed here; pip says why above")
    notebook = json.loads((folder / f"02-{name}.ipynb").read_text(encoding="utf-8"))
    shown = notebook["metadata"]["kernelspec"]["display_name"]
    argv = [python, *get_kernel_dict()["argv"][1:]]
    files = write_kernel_spec(overrides={"argv": argv, "display_name": shown})
    KernelSpecManager().install_kernel_spec(files, f"d2lperf-{name}", prefix=sys.prefix)
    shutil.rmtree(files)
    ready.write_text(wanted, encoding="utf-8")
    return f"{name}: kernel {shown!r} made in {time.monotonic() - start:.0f} s"


def main(wanted: list[str], folder: Path = FOLDER) -> int:
    """Make the kernels asked for, or all that fit this Python; return 1 if one is not made."""
    status, there = 0, names(folder)
    for name in wanted or there:
        try:
            if name not in there:
                raise KernelError(f"there is no framework {name!r}; there are: {', '.join(there)}")
            reason = "" if wanted else unfit(name, folder)
            if reason:
                print(f"{reason}: left out")
                continue
            print(make(name, folder), flush=True)
        except KernelError as error:
            print(error, file=sys.stderr, flush=True)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
