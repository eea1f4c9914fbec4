"""The calculators compute what the package computes, in a real browser; keyboard, labels."""

import itertools
import json
from pathlib import Path

import pytest

from d2lperf import costs
from d2lperf.formats import format_value

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
    values = [v * 10.0**e for v in (1, 1.2346, 9.994, 9.996, 99.96, 5) for e in range(-8, 14)]
    for unit in ("s", "B", "FLOP/s"):
        cases = [[v, unit] for v in values if v >= 1e-8 and (v < 9e3 if unit == "s" else v >= 1)]
        wanted = [format_value(*case) for case in cases]
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


def shown(page, table):
    return [row.split("\t") for row in page.locator(f"#{table} tr").all_inner_texts()]


def percent(share):
    return f"{100 * share:.{1 if share < 0.1 else 0}f} %"


def limits(work, overhead_s, rate):
    """The table of "Which limit?", computed by the package."""
    rows = []
    for sheet in ACCELERATORS:
        device = {"flops_per_s": sheet[rate], "bytes_per_s": sheet["bytes_per_s"]}
        times = costs.work_times(**work, **device, overhead_s=overhead_s)
        seconds = [format_value(time, "s") for time in (*times, times.seconds)]
        rows.append([sheet["name"], *seconds[:3], times.limit, seconds[3]])
    return rows


def test_which_limit_shows_what_the_package_computes(visit):
    page = visit().open("calculators/which-limit.html")
    example = page.get_by_label("Example")
    example.select_option(index=2)
    work = json.loads(example.input_value())
    rows = shown(page, "limit-rows")
    assert rows == limits(work, 10e-6, "flops_16")
    assert "139 µs" in [row[5] for row in rows]  # 2 * 4096**3 FLOPs at 989 TFLOP/s
    page.get_by_label("overhead of an operation").fill("250")
    assert shown(page, "limit-rows") == limits(work, 250e-6, "flops_16")
    page.locator("[name=format]").select_option("8 bits")
    assert shown(page, "limit-rows") == limits(work, 250e-6, "flops_8")


def test_what_fits_shows_what_the_package_computes(visit):
    page = visit().open("calculators/what-fits.html")
    page.get_by_label("parameters").fill("1e9")
    page.get_by_label("precision").select_option("float32")
    page.get_by_label("kept for an example").fill("1e9")
    page.get_by_label("ZeRO stage").select_option("0")
    verdict = page.locator("#fits-verdict")
    (memory,) = [s["memory"] for s in ACCELERATORS if s["name"] == "NVIDIA H100 SXM"]

    def held(batch):
        return costs.training_bytes(1e9, batch=batch, kept=1e9)

    most = max(n for n in range(1, 100) if held(n).total <= memory)
    for batch, words in ((most, "It fits"), (most + 1, "It does not fit")):
        page.get_by_label("batch on each device").fill(str(batch))
        parts = {**held(batch)._asdict(), "together": held(batch).total}
        assert shown(page, "fits-rows") == [
            [part, format_value(nbytes, "B"), percent(nbytes / held(batch).total)]
            for part, nbytes in parts.items()
        ]
        total, card = format_value(held(batch).total, "B"), format_value(memory, "B")
        most_fit = f"At most {most} examples fit on each device."
        assert verdict.inner_text() == f"{words}: {total} of {card}. {most_fit}"
    page.get_by_label("kept for an example").fill("1e11")
    assert verdict.inner_text().endswith("Not even one example fits beside the state.")
    page.get_by_label("parameters").fill("1e10")
    assert verdict.inner_text().endswith("No batch fits beside the state.")
    page.get_by_label("parameters").fill("1e9")
    page.get_by_label("kept for an example").fill("0")
    assert verdict.inner_text() == f"It fits: {format_value(held(0).total, 'B')} of {card}."


def test_communication_shows_what_the_package_computes(visit):
    page = visit().open("calculators/communication.html")
    page.get_by_label("latency").fill("200")
    page.get_by_label("a message occupies its link").fill("30")
    page.get_by_label("computing in a step").fill("40")
    link = {"latency_s": 200e-6, "message_s": 30e-6, "bytes_per_s": 10e9}
    wanted = []
    for way in ("one server", "every worker serves", "ring", "halving and doubling"):
        chain, messages, share = costs.all_reduce_traffic(way, 8)
        seconds = costs.all_reduce_s(way, 8, 100e6, **link)
        step = percent(costs.communication_share(40e-3, seconds))
        row = [str(chain), str(messages), f"{share:#.3g}", format_value(seconds, "s"), step]
        wanted.append([way, *row])
    assert shown(page, "communication-rows") == wanted


@pytest.mark.parametrize(
    "name, shapes",
    [
        ("which-limit", {".roof": len(ACCELERATORS), ".roof.chosen": 1, ".point": 1, ".mark": 1}),
        # a legend and one bar for each stage of ZeRO, for each way
        ("what-fits", {**{f".part-{part}": 5 for part in costs.Held._fields}, ".mark": 1}),
        ("communication", {".part-compute": 5, ".part-communicate": 5}),
    ],
)
def test_the_figure_is_drawn(visit, name, shapes):
    page = visit().open(f"calculators/{name}.html")
    figure = page.locator(".calculator-figure").first
    assert {shape: figure.locator(shape).count() for shape in shapes} == shapes


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


RING = ("Before the first turn", "Turn 2 of 6, reduce-scatter", "Turn 6 of 6, all-gather")
PIPELINE = ("Turn 22 of 22", "Turn 2 of 22; open on stage 0: 2", "Turn 22 of 22")


@pytest.mark.parametrize(
    "name, texts, shape, counts",
    [("ring", RING, ".full", (16, 12)), ("pipeline", PIPELINE, "rect", (64, 63))],
    ids=["ring", "pipeline"],
)
def test_an_animation_can_be_paused_and_moved_by_keyboard(visit, name, texts, shape, counts):
    page = visit(own=True).open("calculators/communication.html")  # its clock is stopped
    player, shapes = page.locator(f"#{name}"), page.locator(f"#{name}-figure {shape}")
    text = player.locator("output")
    page.clock.install(time=0)
    page.clock.pause_at(3600)  # otherwise it goes on by itself between two calls
    assert text.inner_text().startswith(texts[0])
    player.get_by_role("button", name="Play").press("Enter")
    page.clock.run_for(2000)
    player.get_by_role("button", name="Pause").press("Enter")
    stopped = text.inner_text()
    assert stopped.startswith(texts[1])
    page.clock.run_for(5000)
    assert text.inner_text() == stopped
    player.get_by_label("turn").press("End")
    assert text.inner_text().startswith(texts[2])
    assert shapes.count() == counts[0]
    player.get_by_role("button", name="Back").press("Enter")
    assert shapes.count() == counts[1]


@pytest.mark.parametrize("name", NAMES)
def test_each_links_to_the_sections_that_derive_its_formulas(visit, name):
    page = visit().open(f"calculators/{name}.html")
    targets = page.locator("article a[href*='/notebooks/'][href*='#']")
    assert targets.count() >= 2
    assert page.locator(".MathJax, mjx-container").count()
