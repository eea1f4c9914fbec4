"""Write the address of a fork into it: `python notebooks/address.py owner/name` (`make stamp`).

pyproject.toml and CITATION.cff name the repository, README.md and the notebooks get a badge that
opens them in Colab, the set-up cells install d2lperf from there, and the web page has launch links.
An empty argument takes all of it out again.
"""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[\w.-]{1,100}", re.ASCII)
COLAB = "https://colab.research.google.com"
START = "notebooks/00-start-here.ipynb"


def in_pyproject(text: str, name: str) -> str:
    """Return pyproject.toml with the address in its project URLs, and only this one there."""
    text = re.sub(r'(?m)^Repository = ".*"\n', "", text).replace("[project.urls]\n\n", "")
    url = f'Repository = "https://github.com/{name}"\n' if name else ""
    if "[project.urls]\n" in text:
        return text.replace("[project.urls]\n", f"[project.urls]\n{url}")
    table = f"[project.urls]\n{url}\n" if url else ""
    return text.replace(
        "[project.optional-dependencies]\n", f"{table}[project.optional-dependencies]\n"
    )


def in_citation(text: str, name: str) -> str:
    """Return CITATION.cff with the address of the code."""
    text = re.sub(r"(?m)^repository-code: .*\n", "", text)
    line = f"repository-code: https://github.com/{name}\n" if name else ""
    return re.sub(r"(?m)^license: .*\n", rf"\g<0>{line}", text)


def in_readme(text: str, name: str) -> str:
    """Return README.md with a badge under its title."""
    text = re.sub(r"(?m)^\[!\[Open in Colab\].*\n\n", "", text)
    link = f"{COLAB}/github/{name}/blob/main/{START}"
    badge = f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({link})\n\n" if name else ""
    return re.sub(r"\A# .*\n\n", rf"\g<0>{badge}", text)


FILES = {"pyproject.toml": in_pyproject, "CITATION.cff": in_citation, "README.md": in_readme}


def main(arguments: list[str]) -> int:
    """Write the address; return 1 if a notebook could not be stamped, 2 for a bad name."""
    (name,) = arguments
    if name and (not NAME.fullmatch(name) or name.endswith(".git")):
        print(
            f"REPO is {name!r}, but it must be owner/name as on GitHub, without https:// and .git: "
            "make stamp REPO=owner/name. An empty one takes the address out: make stamp REPO=",
            file=sys.stderr,
        )
        return 2
    for file, write in FILES.items():
        path = ROOT / file
        before = path.read_bytes().decode()
        after = write(before, name)
        if after != before:
            path.write_bytes(after.encode())
            print(f"{file}: {name or 'no address'}")
    # It reads the new address from pyproject.toml.
    build = runpy.run_path(str(Path(__file__).with_name("build.py")))
    return build["main"](["--stamp"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
