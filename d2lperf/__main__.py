"""The command line: `python -m d2lperf explain script.py --step train_step [-- its arguments]`."""

from __future__ import annotations

import argparse
import io
import math
import sys
from contextlib import redirect_stdout
from typing import Any

LEVERS = 3  # that are shown
WORTH = 1.02  # a gain that is shown


def main(arguments: list[str] | None = None) -> int:
    """Explain the training step of a script; return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    options = _parser().parse_args(given[:end])
    options.arguments = given[end + 1 :]
    from d2lperf.explaining.script import ScriptError

    try:
        print(report(options))
    except ScriptError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m d2lperf")
    commands = parser.add_subparsers(required=True, metavar="command")
    explain = commands.add_parser(
        "explain",
        help="tell what limits the training step of a script, and what would help",
        epilog="The script's own arguments stand at the end, after --.",
        description="Runs the script up to the second call of its step, then runs that call "
        "again: about five times if it is slow, thousands of times if it takes microseconds. What "
        "the script prints is not shown.",
    )
    explain.add_argument("script", help="a Python file")
    explain.add_argument("--step", required=True, help="a function at the top level of the script")
    explain.add_argument(
        "--limit", type=float, default=60.0, metavar="SECONDS",
        help="how long the script may take to reach its step, and the first call of it (60)",
    )  # fmt: skip
    explain.add_argument(
        "--device", metavar="NAME", help='predict for an accelerator by its data sheet: "H100 SXM"'
    )
    return parser


def report(options: argparse.Namespace) -> str:
    """Return the report: machine, time of a step, share of waiting, limit, three levers."""
    from d2lperf.datasheets import datasheet
    from d2lperf.explaining import explain
    from d2lperf.explaining.script import ScriptError, step_of, time_limit
    from d2lperf.machine import describe_machine

    try:
        ceilings = datasheet(options.device) if options.device else None
    except ValueError as error:
        raise ScriptError(str(error)) from None
    reach = f"{options.script} without a second call of {options.step}"
    with time_limit(options.limit, reach, "Give it less to prepare, or a larger --limit."):
        step = step_of(options.script, options.step, options.arguments)
    advice = f"Is {options.step} one step, or the whole training? Else give a larger --limit."
    try:
        with redirect_stdout(io.StringIO()):  # many calls may print many lines
            with time_limit(options.limit, f"one call of {options.step}", advice):
                step()
            found = explain(step, ceilings=ceilings)
    except StopIteration:
        raise ScriptError(
            f"{options.step} was called again and again, and its data came to an end. Let it begin "
            "anew, or give the step one batch as its argument."
        ) from None
    except ValueError as error:
        raise ScriptError(f"{options.step}: {error}") from error
    return "\n".join([str(describe_machine()), "", *summary(found, options.step), "", str(found)])


def summary(found: Any, name: str) -> list[str]:
    """Return the lines about a step: time, share of waiting, limit, what would help most."""
    from d2lperf.explaining.advice import profile_first
    from d2lperf.formats import format_estimate, format_seconds

    lines = []
    if found.measurement:
        low, high = found.measurement.interval_s
        took = format_seconds(found.measured_s)
        if math.isfinite(high):
            took = format_estimate(found.measured_s, low, high, format_seconds)
        lines += [f"one call of {name}: {took}"]
        lines += [f"waiting, outside of torch's operations: {found.outside:.0%}"]
    lines += [f"predicted: {format_seconds(found.predicted_s)}", f"limit: {found.regime}"]
    warning = profile_first(found.regime, found.measured_s, found.predicted_s)
    lines += [warning] if warning else []
    worth = [lever for lever in found.levers() if lever.gain >= WORTH][:LEVERS]
    for number, lever in enumerate(worth, 1):
        lines += [f"{number}. {lever.what}: at most {lever.gain:.2f} times as fast"]
    return lines


if __name__ == "__main__":
    sys.exit(main())
