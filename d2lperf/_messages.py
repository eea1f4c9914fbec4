"""Messages of torch that a reader can do nothing about, and that are kept out of the outputs.

They are about the installation or the interpreter, not about what a cell does. Each is matched by
its own words, so that no other message is lost. `import d2lperf` is enough: nothing of torch is
imported here.
"""

import logging
import warnings

# torch with CUDA on a machine without a GPU, when something can be compiled (torch.compile,
# torch.utils.benchmark): the loggers and the beginnings of what they say.
_LOGGED = {"torch.utils.cpp_extension": "No CUDA runtime is found"}
# Python 3.13.0 alone, at the first compilation.
_WARNED = (r"Guards may run slower on Python 3\.13\.0",)


class _Beginning(logging.Filter):
    """Drops what begins like this."""

    def __init__(self, beginning: str):
        super().__init__()
        self._beginning = beginning

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(self._beginning)


def keep_out() -> None:
    """Keep these messages out of this process, whether or not torch is there already."""
    for logger, beginning in _LOGGED.items():
        logging.getLogger(logger).addFilter(_Beginning(beginning))
    for beginning in _WARNED:
        warnings.filterwarnings("ignore", beginning, RuntimeWarning)
