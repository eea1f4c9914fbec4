# The environment is made once in .venv from requirements.lock, and again when that changes.
#   make lab                          open the notebooks
#   make test                         everything, the notebooks run strictly
#   make frameworks [FRAMEWORK=jax]   kernels for the notebooks in frameworks/ (all of them)
#   make notebooks [NN="00 01"]       execute them again and store their outputs
#   make record                       run course and studies; store this machine's numbers
#   make book                         the web page, into build/book/html
#   make book-test                    the web page in a browser (Debian: apt-get install chromium)
#   make e2e [NN="00 01"]             the notebooks in JupyterLab in a browser (the same)
#   make lint                         check style and types, and the notebooks' prose
#   make stamp REPO=owner/name        write a fork's address everywhere; REPO= takes it out
#   make colab [NN="00 01"]           the course where only Colab's packages are
#   make release                      a wheel and an archive of the sources, tried, into dist
#   make matrix [PYTHONS="3.10 3.13"]  make test with several, each in an environment of its own
#   make conda                        the tests and five notebooks with what environment.yml says
#   make oldest                       the tests with the oldest and the newest dependencies
#   make nbconvert                    execute the notebooks by nbconvert, into build/nbconvert
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

# $(call environment,folder,its python) makes an environment, unless there is one. An interrupt leaves
# .unfinished in it. Then it is made again: pip takes half of a package for the whole.
define environment
@if [ -e "$(1)/.unfinished" ]; then echo "$(1) was not finished and is made again."; fi; \
  if [ -e "$(1)/.unfinished" ] || ! "$(2)" -m pip --version >/dev/null 2>&1; then \
    rm -rf "$(1)" && mkdir -p "$(1)" && touch "$(1)/.unfinished" && $(PYTHON) -m venv "$(1)" || { \
      echo "No virtual environment could be made (on Debian: apt install python3-venv)." >&2; exit 1; }; fi
@touch "$(1)/.unfinished"
endef

# $(call install,folder,its python,what): where pip itself gives up, what is there can be used; where
# it is killed (a status above 128), it cannot.
define install
@echo "pip install $(3)"; trap 'exit 130' INT TERM; \
  "$(2)" -m pip install --quiet $(3) || { \
  [ $$? -gt 128 ] || rm -f "$(1)/.unfinished"; \
  echo "pip could not install what d2lperf needs into $(1); its last lines say why." >&2; \
  echo "Without a network: connect and call make again, which goes on from here, or let pip take" >&2; \
  echo "wheels from a folder: PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER make $(MAKECMDGOALS)" >&2; exit 1; }
endef

.PHONY: help lab test matrix conda oldest nbconvert stamp colab frameworks notebooks record book book-test \
  e2e release lint lock clean

help:
	@sed -n 's/^#   make/make/p' Makefile

lab: $(READY)
	cd notebooks && "$(RUN)" -m jupyterlab $(LAB_ARGS) 00-start-here.ipynb

frameworks: $(READY)
	"$(RUN)" notebooks/kernels.py $(FRAMEWORK)

ifneq ($(filter frameworks,$(MAKECMDGOALS)),)
export D2LPERF_FRAMEWORKS := $(or $(FRAMEWORK),all)
test: frameworks
endif
# Three workers for two cores: the course has one (conftest.py), and many tests wait for processes.
test: $(READY)
	"$(RUN)" -m pytest -n 3 --no-loadscope-reorder $(PYTEST_ARGS)

matrix:
	$(PYTHON) tests/matrix.py $(PYTHONS)

conda:
	$(PYTHON) tests/sets.py conda

oldest:
	$(PYTHON) tests/sets.py oldest newest

# nbconvert runs each notebook in its own folder, but all that one call names with the kernel of the
# first. Those in frameworks/ need the kernel of that name.
KERNELS = $(wildcard $(VENV)/share/jupyter/kernels/d2lperf-*)
EXECUTE = "$(RUN)" -m nbconvert --to notebook --execute --output-dir build/nbconvert
nbconvert: $(READY)
	$(EXECUTE) notebooks/*.ipynb notebooks/deeper/*.ipynb
	for kernel in $(notdir $(KERNELS)); do \
	  $(EXECUTE) "notebooks/frameworks/02-$${kernel#d2lperf-}.ipynb" || exit 1; done

notebooks: $(READY)
	"$(RUN)" notebooks/build.py $(NN)

# An address is taken from make's command line alone: elsewhere REPO may mean something else.
stamp: $(READY)
	"$(RUN)" notebooks/$(if $(filter command,$(origin REPO)),address.py "$(REPO)",build.py --stamp)

colab:
	$(PYTHON) tests/colab.py $(NN)

record: $(READY)
	"$(RUN)" notebooks/build.py --record

book: $(BOOK_READY)
	"$(BOOK_RUN)" docs/book.py

# Its conftest.py is enough: the other one asks for what the notebooks need. Three workers for two
# cores: each page is quiet for half a second before it is checked.
book-test: book
	D2LPERF_BROWSER=1 "$(BOOK_RUN)" -m pytest -n 3 --confcutdir=tests/web tests/web $(PYTEST_ARGS)

# The page's environment drives the browser. JupyterLab and its kernels run in the notebooks' own.
e2e: $(READY) $(BOOK_READY)
	D2LPERF_BROWSER=1 D2LPERF_LAB="$(RUN)" D2LPERF_NN="$(NN)" \
	  "$(BOOK_RUN)" -m pytest --confcutdir=tests/e2e tests/e2e $(PYTEST_ARGS)

$(BOOK_READY): pyproject.toml
	$(call environment,$(BOOK_VENV),$(BOOK_RUN))
	"$(BOOK_RUN)" docs/book.py --requirements > "$(BOOK_VENV)/requirements.txt"
	$(call install,$(BOOK_VENV),$(BOOK_RUN),--no-compile -r "$(BOOK_VENV)/requirements.txt")
	@rm -f "$(BOOK_VENV)/.unfinished"; touch "$@"

release: $(READY)
	"$(RUN)" tests/release.py

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
	$(call environment,$(VENV),$(RUN))
	$(call install,$(VENV),$(RUN),-r requirements.lock)
	$(call install,$(VENV),$(RUN),--no-deps "$(D2L)" -e .)
	@rm -f "$(VENV)/.unfinished"; touch "$@"

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
	rm -rf "$(VENV)" "$(BOOK_VENV)" build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .benchmarks
