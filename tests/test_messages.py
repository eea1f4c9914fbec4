"""Messages that no reader can act on stay out; all others come through."""

from fresh import run_fresh

PROGRAM = """
import logging, warnings
{first}
import d2lperf
{second}
logger = logging.getLogger("torch.utils.cpp_extension")
logger.warning("No CUDA runtime is found, using CUDA_HOME='/usr/local/cuda'")
logger.warning("Something else about CUDA")
warnings.warn("Guards may run slower on Python 3.13.0. Consider upgrading.", RuntimeWarning)
warnings.warn("Guards are gone", RuntimeWarning)
"""


def test_known_messages_are_dropped_and_others_are_not():
    for order in ({"first": "import torch", "second": ""}, {"first": "", "second": "import torch"}):
        said = run_fresh(PROGRAM.format(**order)).stderr
        assert "Something else about CUDA" in said and "Guards are gone" in said
        assert "No CUDA runtime" not in said and "run slower" not in said
