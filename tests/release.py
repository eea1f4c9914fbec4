"""Build a release and try it as a user has it: `make release` writes dist/.

A wheel and an archive of the sources are built. Each is installed into a new environment, which
borrows the other packages of this one. pip finds all that it declares among these, and it passes
the package's doctests in a folder without a clone. Building needs the package index.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
# What a clone would tell the package does not reach the new environments.
OF_THE_CLONE = ("PYTHONPATH", "PYTHONHOME", "PYTEST_ADDOPTS")
OPTIONS = ["--doctest-modules", "--import-mode=importlib", "-q", "-p", "no:cacheprovider"]
FLAGS = "doctest_optionflags=NORMALIZE_WHITESPACE ELLIPSIS"
DOCTESTS = ["-m", "pytest", "--pyargs", "d2lperf", *OPTIONS, "-o", FLAGS]
WHERE = "import d2lperf; print(d2lperf.__version__, d2lperf.__file__)"


class ReleaseError(Exception):
    """A release is not as it must be; the message says what is wrong."""


def files_of_the_package() -> list[str]:
    """Return the files of d2lperf that git knows, as paths in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "d2lperf"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return listed.stdout.split()


def names_in(archive: Path) -> list[str]:
    """Return what an archive holds, as paths in the repository."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.namelist()
    with tarfile.open(archive) as sources:  # all of it lies in a folder d2lperf-VERSION
        return [name.partition("/")[2] for name in sources.getnames()]


def check_files(archive: Path, wanted: Iterable[str]) -> None:
    """Raise a ReleaseError unless an archive holds the whole package and no tests."""
    names = set(names_in(archive))
    if lacking := sorted(set(wanted) - names):
        raise ReleaseError(f"{archive.name} lacks {', '.join(lacking)}: see pyproject.toml")
    allowed = re.compile(r"d2lperf(-[^/]+\.dist-info|\.egg-info)?(/|$)|[^/]*$")
    if foreign := sorted(name for name in names if not allowed.match(name)):
        raise ReleaseError(f"{archive.name} also holds {', '.join(foreign)}: see MANIFEST.in")


def build(folder: Path) -> list[Path]:
    """Build the sources, and the wheel from these; return both archives."""
    tools = new_environment(folder / "tools")
    run([tools, "-m", "pip", "install", "--quiet", "build"])
    shutil.rmtree(DIST, ignore_errors=True)
    run([tools, "-m", "build", "--outdir", DIST, ROOT])
    made = sorted(DIST.iterdir())
    if [path.suffix for path in made] != [".whl", ".gz"]:
        raise ReleaseError(f"built {[path.name for path in made]}, not a wheel and an archive")
    return made


def new_environment(folder: Path) -> Path:
    """Make an environment and return its interpreter."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def borrow(python: Path) -> None:
    """Let an environment import the packages of this one, after its own.

    A package that is installed here from a clone is not among them: Python reads the files that
    point to clones only in an environment's own folder.
    """
    question = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = run([python, "-c", question], capture=True).strip()
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(own, "borrowed.pth").write_text("\n".join(sorted(borrowed)) + "\n", encoding="utf-8")


def check_dependencies(python: Path) -> None:
    """Have pip resolve what the installed release declares; nothing is looked for or installed."""
    wanted = "d2lperf[notebooks,test]"
    # Isolated: a folder that PIP_FIND_LINKS names would be looked into.
    run(
        [python, "-m", "pip", "--isolated", "install", "--quiet", "--dry-run", "--no-index", wanted]
    )


def try_out(archive: Path, folder: Path) -> None:
    """Install an archive into a new environment and run its doctests there."""
    python = new_environment(folder / archive.suffix.strip("."))
    run([python, "-m", "pip", "install", "--quiet", "--no-deps", archive])
    # The one that Python 3.11 and older bring along is too old for torch.
    run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools"])
    borrow(python)
    check_dependencies(python)
    away = folder / "away"
    away.mkdir(exist_ok=True)
    version, _, file = run([python, "-c", WHERE], away, capture=True).strip().partition(" ")
    if f"-{version}" not in archive.name or python.parents[1] not in Path(file).parents:
        raise ReleaseError(f"{archive.name} was installed, but Python has {version} from {file}")
    run([python, *DOCTESTS], away)
    print(f"{archive.name}: installed, doctests passed outside of the clone", flush=True)


def run(command: list, cwd: Path | None = None, *, capture: bool = False) -> str:
    """Run a command without this clone's variables; return what it prints if asked."""
    env = {name: value for name, value in os.environ.items() if name not in OF_THE_CLONE}
    env |= {"MPLBACKEND": "Agg", "TQDM_DISABLE": "1"}
    out = subprocess.PIPE if capture else None
    try:
        done = subprocess.run(list(map(str, command)), cwd=cwd, env=env, check=True, stdout=out)
    except subprocess.CalledProcessError as error:
        words = " ".join(map(str, command[1:]))
        raise ReleaseError(f"`python {words}` ended with {error.returncode}") from None
    return done.stdout.decode() if capture else ""


def main() -> int:
    """Build and try both archives; return 0 where all is well."""
    try:
        with tempfile.TemporaryDirectory(prefix="d2lperf-release-") as folder:
            archives = build(Path(folder))
            for archive in archives:
                check_files(archive, files_of_the_package())
                try_out(archive, Path(folder))
    except ReleaseError as error:
        print(f"No release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
