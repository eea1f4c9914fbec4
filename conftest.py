"""What every pytest run needs, from whichever folder it starts: nbval runs notebooks strictly."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent

# Kernels and tests inherit these. A contradicted claim raises; bars are for people, not for
# stored outputs; a backend from outside would keep the kernels from drawing inline.
os.environ.setdefault("D2LPERF_STRICT", "1")
os.environ["TQDM_DISABLE"] = "1"
os.environ.pop("MPLBACKEND", None)


def pytest_configure(config):
    try:
        import matplotlib

        # For this process only: an environment variable would reach the kernels.
        matplotlib.use("Agg")
    except ImportError:
        pass
    if not config.pluginmanager.hasplugin("nbval"):
        return  # said where a notebook is met, so that `pytest tests/test_stats.py` still runs
    option = config.option
    option.nbval = not option.nbval_lax
    option.nbval_current_env = option.nbval_kernel_name is None
    if option.nbval_sanitize_with is None:
        option.nbval_sanitize_with = str(ROOT / "tests" / "sanitize.cfg")
    if "--nbval-cell-timeout" not in " ".join(config.invocation_params.args):
        option.nbval_cell_timeout = 300.0


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".ipynb" and not parent.config.pluginmanager.hasplugin("nbval"):
        raise pytest.UsageError(
            f"{file_path.name} cannot be tested: nbval is not installed. "
            "Install it with: python -m pip install -e '.[notebooks,test]'"
        )
