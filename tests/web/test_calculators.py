"""The calculators compute what the package computes, in a real browser; keyboard, labels."""

import itertools
import json
from pathlib import Path

import pytest

from d2lperf import costs

DOCS = Path(__file__).parents[2] / "docs"
ACCELERATORS = json.loads((DOCS / "accelerators.json").read_text(encoding="utf-8"))
NAMES = ("which-limit", "what-fits", "communication")


def close(found, wanted):
    """Equal up to rounding; lists of lists as well."""
    if found and isinstance(found, list) and isinstance(found[0], list):
        return len(found) == len(wanted) and all(map(close, found, map(list, wanted)))
    return found == pytest.approx(wanted, rel=1e-12)


def grid(**choices):
    return [dict(zip(choices, values)) for values in itertools.product(*choices.values())]


def computed(page, function, cases):
    """Results of a function of the page, each called with one object or a list of arguments."""
    call = f"cases => cases.map(c => d2lperf.{function}(...(Array.isArray(c) ? c : [c])))"
    return page.evaluate(call, cases)


def test_limits_on_a_grid(visit):
    page = visit().open("calculators/which-limit.html")
    devices = [
        {"flops_per_s": sheet[rate], "bytes_per_s": sheet["bytes_per_s"], "overhead_s": overhead_s}
        for sheet in ACCELERATORS
        for rate in ("flops_16", "flops_8")
        for overhead_s in (0, 1e-5)
    ]
    work = itertools.product([1e3, 2e9, 3e15], [1.0, 7e8, 1e12], [0, 1, 4000], devices)
    cases = [list(case) for case in work]
    wanted = [costs.work_times(*case[:3], **case[3]) for case in cases]
    found = computed(page, "workTimes", cases)
    assert close([list(times.values()) for times in found], wanted)
    assert computed(page, "limitOf", found) == [times.limit for times in wanted]


def test_memory_on_a_grid(visit):
    page = visit().open("calculators/what-fits.html")
    cases = grid(
        parameters=[1, 12_345, 8e9], optimizer=["sgd", "momentum", "adam"],
        precision=["float32", "autocast", "16 bit"], batch=[1, 32], kept=[0, 4096, 4e9],
        stage=[0, 1, 2, 3], devices=[1, 7, 1024],
    )  # fmt: skip
    wanted = [costs.training_bytes(**case)._asdict() for case in cases]
    found = computed(page, "trainingBytes", cases)
    assert [list(parts) for parts in found] == [list(parts) for parts in wanted]
    assert close([list(p.values()) for p in found], [list(p.values()) for p in wanted])


def test_communication_on_a_grid(visit):
    page = visit().open("calculators/communication.html")
    ways = page.evaluate("Object.keys(d2lperf.WAYS)")
    assert ways == ["one server", "every worker serves", "ring", "halving and doubling"]
    cases = [
        list(case)
        for case in itertools.product(
            ways, [2, 3, 8, 1000, 16384], [0, 1e4, 1e9], [0, 1e-4], [0, 1e-5], [1e8, 1e10]
        )
    ]
    names = ("latency_s", "message_s", "bytes_per_s")
    wanted = [costs.all_reduce_s(*case[:3], **dict(zip(names, case[3:]))) for case in cases]
    assert close(computed(page, "allReduceSeconds", cases), wanted)
    shares = [[c, s] for c in (1e-3, 1.0) for s in (0, 1e-4, 2.0)]
    assert close(
        computed(page, "communicationShare", shares),
        [costs.communication_share(*case) for case in shares],
    )


def test_numbers_are_written_as_in_the_package(visit):
    page = visit().open("calculators/communication.html")
    formats = pytest.importorskip("d2lperf.formats")
    values = [v * 10.0**e for v in (1, 1.2346, 9.994, 9.996, 99.96, 5) for e in range(-8, 14)]
    for unit in ("s", "B", "FLOP/s"):
        cases = [[v, unit] for v in values if v >= 1e-8 and (v < 9e3 if unit == "s" else v >= 1)]
        wanted = [formats.format_value(*case) for case in cases]
        assert computed(page, "format", cases) == wanted


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_the_ring_adds_everything_once(visit, n):
    """After n - 1 turns each worker has one whole chunk, after 2 (n - 1) turns all of them."""
    page = visit().open("calculators/communication.html")
    (states,) = computed(page, "ringStates", [[n]])
    chain, messages, share = costs.all_reduce_traffic("ring", n)
    assert len(states) - 1 == chain == messages == share * n
    assert [sum(count == n for count in row) for row in states[n - 1]] == [1] * n
    assert states[-1] == [[n] * n] * n
    for before, after in itertools.pairwise(states):  # each worker receives one chunk a turn
        assert [sum(a != b for a, b in zip(*rows)) for rows in zip(before, after)] == [1] * n


@pytest.mark.parametrize("stages, micro", [(1, 1), (2, 4), (4, 8), (8, 3), (8, 16)])
@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
def test_the_pipeline_idles_as_long_as_the_formula_says(visit, stages, micro, schedule):
    page = visit().open("calculators/communication.html")
    limit = [micro if schedule == "GPipe" else stages - s for s in range(stages)]
    (tasks,) = computed(page, "pipelineTasks", [[stages, micro, limit]])
    place = {(t["pass"], t["stage"], t["micro"]): t["turn"] for t in tasks}
    assert len(place) == 2 * stages * micro
    assert len({(t["stage"], t["turn"]) for t in tasks}) == len(tasks), "one task at a time"
    for (kind, stage, i), turn in place.items():
        if kind == "F" and stage:
            assert place["F", stage - 1, i] < turn
        if kind == "B":
            first = ("B", stage + 1, i) if stage + 1 < stages else ("F", stage, i)
            assert place[first] < turn
    turns = max(place.values()) + 1
    assert close(1 - len(tasks) / (turns * stages), costs.pipeline_idle(stages, micro))


# ------------------------------------------------------------------------ as a reader uses them


def test_a_form_shows_what_its_functions_compute(visit):
    page = visit().open("calculators/what-fits.html")
    page.get_by_label("parameters").fill("1e9")
    page.get_by_label("precision").select_option("float32")
    page.get_by_label("kept for an example").fill("0")
    page.get_by_label("ZeRO stage").select_option("0")
    assert page.locator("#fits-rows tr").last.inner_text().split("\t")[1] == "16.0 GB"
    assert page.locator("#fits-verdict").inner_text() == "It fits: 16.0 GB of 80.0 GB."

    page = visit().open("calculators/which-limit.html")
    page.get_by_label("Example").select_option(index=2)
    page.get_by_label("overhead of an operation").fill("0")
    row = page.locator("#limit-rows tr", has_text="NVIDIA H100").inner_text().split("\t")
    assert row[4] == "arithmetic"
    assert row[5] == row[3] == "139 µs"  # 2 * 4096**3 FLOPs at 989 TFLOP/s

    page = visit().open("calculators/communication.html")
    page.get_by_label("latency").fill("0")
    page.get_by_label("a message occupies its link").fill("0")
    rows = page.locator("#communication-rows tr").all_inner_texts()
    assert [row.split("\t")[4] for row in rows] == ["140 ms", "17.5 ms", "17.5 ms", "17.5 ms"]


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_number_is_named_and_the_last_result_stays(visit, name):
    page = visit().open(f"calculators/{name}.html")
    before = page.locator("tbody[id] tr").all_inner_texts()
    assert before
    field = page.locator("form.calculator input[type=number]").first
    field.fill("-1")
    message = page.locator("form.calculator [role=alert]").first
    assert message.inner_text().startswith(field.evaluate("f => f.labels[0].textContent.trim()"))
    assert field.get_attribute("aria-invalid") == "true"
    assert page.locator("tbody[id] tr").all_inner_texts() == before
    field.fill("1000")
    assert message.inner_text() == ""


@pytest.mark.parametrize("name", NAMES)
def test_every_field_has_a_label_and_the_keyboard_reaches_it(visit, name):
    page = visit().open(f"calculators/{name}.html")
    fields = "form.calculator :is(input, select, button)"
    wanted = page.locator(fields).count()
    assert page.evaluate(
        "s => [...document.querySelectorAll(s)].every(f => f.labels.length || f.textContent)",
        fields,
    )
    page.locator(fields).first.focus()
    reached = set()
    for _ in range(3 * wanted):
        index = "s => [...document.querySelectorAll(s)].indexOf(document.activeElement)"
        reached.add(page.evaluate(index, fields))
        page.keyboard.press("Tab")
    assert reached >= set(range(wanted))


def test_the_animation_can_be_paused_and_moved_by_keyboard(visit):
    page = visit().open("calculators/communication.html")
    ring = page.locator("#ring")
    page.clock.install()
    assert "Before the first turn" in ring.locator("output").inner_text()
    ring.get_by_role("button", name="Play").press("Enter")
    page.clock.run_for(2000)
    ring.get_by_role("button", name="Pause").press("Enter")
    stopped = ring.locator("output").inner_text()
    assert stopped.startswith("Turn 2 of 6, reduce-scatter")
    page.clock.run_for(5000)
    assert ring.locator("output").inner_text() == stopped
    ring.get_by_label("turn").press("End")
    assert ring.locator("output").inner_text().startswith("Turn 6 of 6, all-gather")
    assert page.locator("#ring-figure .full").count() == 16
    ring.get_by_role("button", name="Back").press("Enter")
    assert page.locator("#ring-figure .full").count() == 12


@pytest.mark.parametrize("name", NAMES)
def test_each_links_to_the_sections_that_derive_its_formulas(visit, name):
    page = visit().open(f"calculators/{name}.html")
    targets = page.locator("article a[href*='/notebooks/'][href*='#']")
    assert targets.count() >= 2
    assert page.locator(".MathJax, mjx-container").count()
