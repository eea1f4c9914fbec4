"""A trial of the study of verdicts: one comparison by one tool; and how trials are kept."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from snippets import SNIPPETS, THREADED

TRUTHS = {"null": 0, "3 %": 1, "10 %": 2}
CONDITIONS = ("quiet", "bursts", "two bursts", "half-way", "steady")


@dataclass
class Trial:
    """One comparison by one tool."""

    tool: str
    condition: str
    snippet: str
    truth: str
    true_ratio: float
    verdict: int | None
    ratio: float
    seconds: float

    @property
    def called(self) -> int:
        """The verdict, 0 also where the tool could not tell."""
        return self.verdict or 0

    @property
    def error(self) -> float:
        """Error of the ratio in per cent."""
        return 100 * abs(self.ratio / self.true_ratio - 1)

    @property
    def right_sign(self) -> int:
        """The verdict that would be right: 0 for a null."""
        return 0 if self.true_ratio == 1 else (1 if self.true_ratio > 1 else -1)


def right(trial: Trial) -> bool:
    """Whether the verdict is the one that is true."""
    return trial.called == trial.right_sign


def decidable(trial: Trial) -> bool:
    """Beside a steady load functions with several threads get no verdict, on purpose."""
    return trial.condition != "steady" or not threaded(trial)


def threaded(trial: Trial) -> bool:
    """Whether every core takes part in the trial's snippet."""
    return trial.snippet in SNIPPETS and SNIPPETS[trial.snippet][0] in THREADED


def this_setting() -> str:
    """The threads and the version that trials of this process are made with."""
    return f"{torch.get_num_threads()} threads, torch {torch.__version__}"


def save(path: Path, trials: list[Trial]) -> None:
    """Write the trials as JSON, and with what setting they were made."""
    found = {"setting": this_setting(), "trials": [asdict(t) for t in trials]}
    path.write_text(json.dumps(found), encoding="utf-8")


def load(paths: list[Path]) -> tuple[list[Trial], str]:
    """Read what `save` wrote, several studies in a row if there are several; and their settings.

    Raises:
        ValueError: a file holds something else.
    """
    trials: list[Trial] = []
    settings: list[str] = []
    for path in paths:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            trials += [Trial(**row) for row in found["trials"]]
            settings.append(found["setting"])
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path} holds no trials that --save wrote: {error!r}") from error
    return trials, "; ".join(dict.fromkeys(settings))
