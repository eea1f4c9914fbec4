"""Recorded runs: what `make record` stores, and the column that shows it."""

import dataclasses
import importlib
import json
import math
from pathlib import Path

import pytest

from d2lperf.machine import Machine
from d2lperf.measuring import recorded
from d2lperf.measuring.predictions import Predictions, predict, predictions

# The package's attribute of this name is the function.
predicting = importlib.import_module("d2lperf.measuring.predictions")

VERSIONS = {"Python": "3.11.7", "torch": "2.13.0", "numpy": "2.4.6", "d2lperf": "0.1.0"}
CPU = Machine(processor="AMD EPYC", cores_usable=2, versions=VERSIONS)
GPU = Machine(
    processor="Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
    cores_usable=16,
    accelerators=("NVIDIA H200, 139 GiB",),
    versions=VERSIONS,
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder of recorded runs, a new session, and this machine without accelerators."""
    monkeypatch.setattr(recorded, "FOLDER", tmp_path / "recorded")
    monkeypatch.setattr(predicting, "_session", {})
    monkeypatch.setattr(predicting, "describe_machine", lambda: CPU)
    recorded.FOLDER.mkdir()
    return recorded.FOLDER


def row(text, measured, unit=""):
    return {"text": text, "predicted": 1.0, "measured": measured, "interval": None, "unit": unit}


def store(card, day, **notebooks):
    """Write a recorded run; return its file."""
    path = recorded.FOLDER / recorded.file_name(card)
    path.write_text(recorded.to_text(day, card, notebooks), encoding="utf-8")
    return path


def header(html):
    return html.partition("<tbody>")[0]


# the names of machines --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("processor", "name"),
    [
        ("AMD EPYC", "2-core AMD EPYC"),
        ("AMD EPYC 9654 96-Core Processor", "2-core AMD EPYC 9654"),
        (GPU.processor, "2-core Intel Xeon Platinum 8481C"),
        ("13th Gen Intel(R) Core(TM) i7-1360P", "2-core 13th Gen Intel Core i7-1360P"),
        ("Apple M2", "2-core Apple M2"),
    ],
)
def test_a_machine_without_accelerators_is_named_by_its_processor(processor, name):
    assert Machine(processor=processor, cores_usable=2).name == name


def test_a_machine_is_named_by_its_accelerator():
    assert GPU.name == "H200"
    assert Machine(accelerators=("NVIDIA GeForce RTX 4090, 24 GiB",) * 4).name == (
        "4 x GeForce RTX 4090"
    )
    assert recorded.file_name(GPU) == "h200-16-core-intel-xeon-platinum-8481c.json"
    assert recorded.file_name(CPU) == "2-core-amd-epyc.json"
    told = dataclasses.replace(CPU, instructions="AVX2, no bfloat16")
    assert told.name == "2-core AMD EPYC (AVX2, no bfloat16)"
    assert recorded.file_name(told) == "2-core-amd-epyc-avx2-no-bfloat16.json"


# the column -------------------------------------------------------------------------------


def test_the_column_names_the_machine_and_has_its_numbers():
    store(CPU, "2026-11-23", **{"05-x": [row("a step", 0.25, "s"), row("a ratio", 3.0)]})
    predict("a step", 0.1, "s").score(0.125, 0.12, 0.13)
    predict("a ratio", 1.0).score(2.0)
    predict("new", 1.0).score(4.0)
    predict("a GPU", 1.0).score(5.0, published="RTX 4090")
    assert str(predictions()).splitlines() == [
        "a step: predicted 100 ms, measured 125 ms [120 ms, 130 ms], off by a factor of 1.2",
        "  recorded on 2-core AMD EPYC: 250 ms (predicted 1.00 s)",
        "a ratio: predicted 1.00, measured 2.00, off by a factor of 2.0",
        "  recorded on 2-core AMD EPYC: 3.00",
        "new: predicted 1.00, measured 4.00, off by a factor of 4.0",
        "a GPU: predicted 1.00, published on RTX 4090 5.00, off by a factor of 5.0",
    ]
    html = predictions()._repr_html_()
    names = ["prediction", "predicted", "this run", "recorded on 2-core AMD EPYC", "published"]
    places = [header(html).index(f">{name}</th>") for name in [*names, "result"]]
    assert places == sorted(places)
    assert (
        "<td class='score'>125 ms</td>"
        "<td class='score'>250 ms (predicted 1.00 s)</td><td class='score'></td>" in html
    )


@pytest.mark.parametrize("rows", [[], [row("something else", 1.0)], [row("a step", 1.0, "ms")]])
def test_without_a_record_of_these_predictions_there_is_no_column(rows):
    """The unit belongs to the prediction: 3 ms are not 3 s."""
    store(CPU, "2026-11-23", **{"05-x": rows})
    predict("a step", 0.1, "s").score(0.125)
    assert "recorded" not in predictions()._repr_html_()
    assert "recorded" not in str(predictions())


def test_an_installed_package_has_no_folder_of_records(folder):
    folder.rmdir()
    predict("a step", 0.1, "s").score(0.125)
    assert "recorded" not in predictions()._repr_html_()
    assert predictions().beside is None


def test_a_gpu_comes_first_on_a_machine_without_one_and_the_reverse(monkeypatch):
    store(CPU, "2026-11-23", **{"05-x": [row("a step", 0.25, "s")]})
    store(GPU, "2026-01-01", **{"05-x": [row("a step", 0.01, "s")]})
    predict("a step", 0.1, "s").score(0.125)
    assert predictions().beside.machine == "H200"
    monkeypatch.setattr(predicting, "describe_machine", lambda: GPU)
    assert predictions().beside.machine == "2-core AMD EPYC"


def test_then_another_processor_comes_first_then_the_newest_run():
    apple, intel = (
        Machine(processor=name, cores_usable=8, versions=VERSIONS) for name in ("Apple M2", "Xeon")
    )
    store(CPU, "2026-11-25", **{"05-x": [row("a step", 0.25, "s")]})
    predict("a step", 0.1, "s").score(0.125)
    assert predictions().beside.machine == "2-core AMD EPYC"
    store(apple, "2026-11-23", **{"05-x": [row("a step", 0.5, "s")]})
    assert predictions().beside.machine == "8-core Apple M2"
    store(intel, "2026-11-24", **{"05-x": [row("a step", 0.5, "s")]})
    assert predictions().beside.machine == "8-core Xeon"
    store(intel, "2026-11-24", **{"05-x": [row("not this notebook", 0.5, "s")]})
    assert predictions().beside.machine == "8-core Apple M2"


def test_numbers_are_of_the_notebook_that_shares_most_predictions():
    notebooks = {
        "05-x": [row("ring", 5.0), row("tree", 6.0)],
        "09-y": [row("ring", 9.0), row("star", 9.5), row("other", 1.0)],
    }
    store(CPU, "2026-11-23", **notebooks)
    for text in ("ring", "star", "new"):
        predict(text, 1.0).score(2.0)
    assert predictions().beside.numbers == {("ring", ""): (1.0, 9.0), ("star", ""): (1.0, 9.5)}


def test_a_run_is_not_shown_beside_itself():
    predict("a step", 0.1, "s").score(0.125)
    store(CPU, "2026-11-23", **{"05-x": predictions().measured_here()})
    assert predictions().beside is None
    predict("a step", 0.1, "s").score(0.126)
    assert predictions().beside.numbers == {("a step", "s"): (0.1, 0.125)}


def test_another_machine_is_shown_also_where_it_found_the_same():
    predict("a peak", 1.0, "B").score(2.0)
    store(GPU, "2026-11-23", **{"06-x": predictions().measured_here()})
    assert predictions().beside.machine == "H200"
    recorded.FOLDER.joinpath(recorded.file_name(GPU)).unlink()
    same_processor = dataclasses.replace(CPU, accelerators=GPU.accelerators)
    store(same_processor, "2026-11-24", **{"06-x": predictions().measured_here()})
    assert predictions().beside.machine == "H200"


# the file ---------------------------------------------------------------------------------


def test_what_is_stored_comes_back(folder):
    predict("a step", 0.1, "s").score(0.125, 0.12, 0.13)
    predict("no interval", 3).score(4, 0, math.inf)
    predict("nothing", 1.0).score(math.nan)
    predict("not scored", 1.0)
    predict("a GPU", 1.0).score(5.0, published="RTX 4090")
    path = store(GPU, "2026-11-23", **{"05-x": predictions().measured_here()})
    assert json.loads(path.read_text(encoding="utf-8"))["notebooks"]["05-x"] == [
        row("a step", 0.125, "s") | {"predicted": 0.1, "interval": [0.12, 0.13]},
        row("no interval", 4) | {"predicted": 3},
    ]
    (record,) = recorded.read()
    assert record.card == GPU and record.day == "2026-11-23"
    found = {("a step", "s"): (0.1, 0.125), ("no interval", ""): (3, 4)}
    assert record.notebooks == {"05-x": found}


GOOD = {"date": "2026-11-23", "card": CPU.to_dict(), "notebooks": {"05-x": [row("a", 1.0)]}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "JSONDecodeError"),
        ("[]", "TypeError"),
        (json.dumps({**GOOD, "date": "last week"}), "last week"),
        (json.dumps({**GOOD, "card": {"processor": "AMD"}}), "versions"),
        (json.dumps({k: GOOD[k] for k in ("date", "card")}), "notebooks"),
        (json.dumps({**GOOD, "notebooks": {"05-x": [{"text": "a"}]}}), "measured"),
        (json.dumps({**GOOD, "notebooks": {"05-x": [row("a", "3 ms")]}}), "no number"),
        (json.dumps({**GOOD, "notebooks": {"05-x": [row("a", True)]}}), "no number"),
    ],
)
def test_what_is_no_record_is_told_with_its_file(folder, text, reason):
    (folder / "bad.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"recorded/bad\.json is not a recorded run: ") as caught:
        predictions()
    assert reason in str(caught.value)
    assert "make record" in str(caught.value)


NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def test_recorded_runs_of_the_repository_are_of_its_notebooks():
    """None need be there; a notebook that has gone takes its numbers along."""
    for path in (NOTEBOOKS / "recorded").glob("*"):
        run = recorded.read_file(path)
        assert path.name == recorded.file_name(run.card)
        for name in run.notebooks:
            assert (NOTEBOOKS / f"{name}.ipynb").is_file(), f"{path.name}: {name}"


# what a notebook stores -------------------------------------------------------------------


def test_a_stored_output_has_all_that_its_table_was_made_from():
    store(GPU, "2026-11-23", **{"05-x": [row("a step", 0.01, "s")]})
    predict("a step", 0.1, "s").score(0.125, 0.12, 0.13)
    mine = predict("half open", 1.0)
    mine.guess(3.0)
    mine.score(2.0, 0.0, math.inf)
    predict("nothing", 1.0).score(math.nan)
    predict("later", 3)
    predict("a GPU", 1.0).score(5.0, published="RTX 4090")
    shown = predictions()
    data, metadata = shown._repr_mimebundle_()
    assert data == {}, "text and table come from their own methods"
    stored = json.loads(json.dumps(metadata["d2lperf"], allow_nan=False))
    again = Predictions.from_dict(stored)
    assert (str(again), again._repr_html_()) == (str(shown), shown._repr_html_())
    assert again.card == CPU and again.day == shown.day
