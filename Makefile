# The environment is made once in .venv from requirements.lock, and again when that changes.
#   make lab                          open the notebooks
#   make test                         everything, the notebooks run strictly
#   make frameworks [FRAMEWORK=jax]   kernels for the notebooks in frameworks/ (all of them)
#   make notebooks [NN="00 01"]       execute them again and store their outputs
#   make record                       run the course; store this machine's numbers
#   make book                         the web page, into build/book/html
#   make book-test                    the web page in a browser (Debian: apt-get install chromium)
#   make lint                         check style and types, and the notebooks' prose
#   make matrix [PYTHONS="3.10 3.13"]  make test with several, each in an environment of its own
# PYTHON=python3.12 chooses another interpreter (make clean first). LAB_ARGS and PYTEST_ARGS are
# passed on: make lab LAB_ARGS=--no-browser, make test PYTEST_ARGS="tests -k stats". make test
# skips a notebook without its kernel. In make frameworks test that is a failure, unless this Python
# cannot have the kernel.

PYTHON ?= python3
VENV ?= .venv
# versions or paths, for make matrix
PYTHONS ?= 3.10 3.11 3.12 3.13
D2L := d2l==1.0.3
TORCH := torch==2.13.0 torchvision==0.28.0

ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
RUN := $(abspath $(BIN))/python
READY := $(VENV)/.ready
# pip does not report its own newest version.
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The page has an environment of its own, without torch: `make test` stays as it is.
BOOK_VENV ?= .venv-book
BOOK_RUN := $(abspath $(BOOK_VENV))/$(notdir $(BIN))/python
BOOK_READY := $(BOOK_VENV)/.ready

.PHONY: help lab test matrix frameworks notebooks record book book-test lint lock clean

help:
	@sed -n '2,10s/^# *//p' Makefile

lab: $(READY)
	cd notebooks && "$(RUN)" -m jupyterlab $(LAB_ARGS) 00-start-here.ipynb

frameworks: $(READY)
	"$(RUN)" notebooks/kernels.py $(FRAMEWORK)

ifneq ($(filter frameworks,$(MAKECMDGOALS)),)
export D2LPERF_FRAMEWORKS := $(or $(FRAMEWORK),all)
test: frameworks
endif
test: $(READY)
	"$(RUN)" -m pytest -n 2 --no-loadscope-reorder $(PYTEST_ARGS)

matrix:
	$(PYTHON) tests/matrix.py $(PYTHONS)

notebooks: $(READY)
	"$(RUN)" notebooks/build.py $(NN)

record: $(READY)
	"$(RUN)" notebooks/build.py --record

book: $(BOOK_READY)
	"$(BOOK_RUN)" docs/book.py

# Its conftest.py is enough: the other one asks for what the notebooks need.
book-test: $(BOOK_READY)
	D2LPERF_BROWSER=1 "$(BOOK_RUN)" -m pytest --confcutdir=tests/web tests/web $(PYTEST_ARGS)

$(BOOK_READY): pyproject.toml
	@"$(BOOK_RUN)" -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear "$(BOOK_VENV)" || { \
	  echo "No virtual environment could be made (on Debian: apt install python3-venv)." >&2; exit 1; }
	"$(BOOK_RUN)" docs/book.py --requirements > "$(BOOK_VENV)/requirements.txt"
	"$(BOOK_RUN)" -m pip install --quiet -r "$(BOOK_VENV)/requirements.txt"
	@touch "$@"

lint: $(READY)
	"$(RUN)" -m ruff check .
	"$(RUN)" -m ruff format --check --exclude "*.ipynb" .
	"$(RUN)" -m mypy
	"$(RUN)" -m notebooks.style

# The book's library comes without its pins of 2023, which Python 3.12 and later cannot install.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))" || { \
	  echo "d2lperf needs Python 3.10 to 3.13, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one, for example: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@"$(RUN)" -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear "$(VENV)" || { \
	  echo "No virtual environment could be made (on Debian: apt install python3-venv)." >&2; exit 1; }
	"$(RUN)" -m pip install --quiet -r requirements.lock
	"$(RUN)" -m pip install --quiet --no-deps "$(D2L)" -e .
	@touch "$@"

# CUDA packages are left out: torch's own build requires those it needs. torch is locked without a
# local suffix, so that a CPU build of the same version fits. Needs uv (python -m pip install uv).
lock:
	printf '%s\n' $(TORCH) | uv pip compile pyproject.toml --universal --python-version 3.10 \
	  --extra notebooks --extra test --constraints - --upgrade --no-annotate --no-header --quiet \
	  | grep -vE '^(nvidia|cuda|triton)' > requirements.lock.new
	{ echo "# Written by 'make lock' from pyproject.toml, for Python 3.10 to 3.13."; \
	  cat requirements.lock.new; } > requirements.lock
	rm requirements.lock.new

clean:
	rm -rf "$(VENV)" "$(BOOK_VENV)" build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .benchmarks
