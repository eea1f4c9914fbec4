"""Draw the ideas that the notebooks explain: `python notebooks/figures/draw.py [NAME ...]`.

Writes NAME.svg and NAME.png (twice the size that is shown) beside this file; the same versions of
matplotlib write the same bytes. One unit is a pixel of the notebook; y goes down. The docstring of
a drawing is its alternative text: `ALT[NAME]`.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from PIL import Image

from d2lperf.plotting import COLOURS, colour_of

WIDTH = 720
INK, SOFT, GREY, PALE = "#333333", "#6A6A6A", "#A6A6A6", "#F4F4F4"
BLUE, RED, GREEN, PURPLE, ORANGE, SKY, _ = COLOURS.values()
RANKS = [colour_of(f"rank {i}") for i in range(4)]
DRAWINGS, ALT = {}, {}


def drawing(height):
    """Register a drawing of a height in pixels."""

    def register(function):
        name = function.__name__.replace("_", "-")
        DRAWINGS[name], ALT[name] = (function, height), " ".join(function.__doc__.split())
        return function

    return register


def tint(colour, part=0.22):
    """Return a colour mixed with white."""
    return tuple(1 - part * (1 - c) for c in to_rgb(colour))


def write(ax, x, y, text, size=11, ha="center", color=INK, bold=False, **options):
    """Write text; (x, y) is its middle, or the middle of its left or right end."""
    if "\n" in text:
        options |= {"va": "center", "linespacing": 1.3}
    else:  # letters with and without a part below the line stand on one line
        y, options["va"] = y + 0.45 * size, "baseline"
    options["weight"] = "bold" if bold else "normal"
    ax.text(x, y, text, size=size, ha=ha, color=color, zorder=6, **options)


def box(ax, x, y, w, h, text, colour, size=11):
    """Draw a rounded box with its text; (x, y) is its upper left corner."""
    style = {"boxstyle": "round,pad=0,rounding_size=5", "lw": 1.3, "zorder": 3}
    ax.add_patch(FancyBboxPatch((x, y), w, h, ec=colour, fc=tint(colour), **style))
    write(ax, x + w / 2, y + h / 2, text, size)


def cell(ax, x, y, w, h, text="", colour=GREY, part=1.0, size=10.5):
    """Draw a plain rectangle with its text."""
    face = tint(colour, part)
    ax.add_patch(Rectangle((x, y), w, h, facecolor=face, edgecolor="white", lw=1, zorder=3))
    dark = sum(c * k for c, k in zip(face, (0.3, 0.59, 0.11))) < 0.55
    write(ax, x + w / 2, y + h / 2, text, size, color="white" if dark else INK)


def arrow(ax, start, end, text="", colour=SOFT, dx=0, dy=-9, size=10.5, lw=1.5, head="-|>"):
    """Draw an arrow with a text beside its middle."""
    style = {"arrowstyle": head, "mutation_scale": 13, "lw": lw, "shrinkA": 0, "shrinkB": 0}
    ax.add_patch(FancyArrowPatch(start, end, color=colour, zorder=5, **style))
    write(ax, (start[0] + end[0]) / 2 + dx, (start[1] + end[1]) / 2 + dy, text, size)


def lane(ax, y, label, bars, length=10.8, h=28):
    """Draw a row over time, 50 pixels for a unit: bars (text, start, duration, colour)."""
    write(ax, 120, y + h / 2, label, ha="right")
    ax.add_patch(Rectangle((130, y), 50 * length, h, facecolor=PALE, zorder=1))
    for text, start, duration, colour in bars:
        cell(ax, 130 + 50 * start, y, 50 * duration, h, text, colour)


def time_axis(ax, y, x0=130, x1=670):
    """Draw an arrow for the time."""
    arrow(ax, (x0, y), (x1, y), lw=1)
    write(ax, x1 + 6, y, "time", 10.5, ha="left", color=SOFT)


@drawing(214)
def frontend_backend(ax):
    """Python and PyTorch, the front end, issue operations into two queues of a GPU, the back end.
    Each queue is a stream. The computing units take from one, a copy engine from the other.
    """
    write(ax, 85, 20, "front end", 12, bold=True)
    write(ax, 460, 20, "back end: a GPU", 12, bold=True)
    ax.add_patch(Rectangle((225, 38), 475, 166, facecolor=PALE, edgecolor=GREY, zorder=1))
    box(ax, 20, 93, 130, 56, "Python,\nPyTorch", SKY, 12)
    write(ax, 185, 84, "issue", color=SOFT)
    ends = ("y.sum()", "x + 1", "computing units"), ("copy", "copy", "copy engine")
    for i, (*queued, end) in enumerate(ends):
        y = 86 + 76 * i
        write(ax, 332, y - 32, f"stream {i}")
        arrow(ax, (150, 121), (255, y))
        for k, operation in enumerate(queued):
            box(ax, 257 + 78 * k, y - 20, 72, 40, operation, ORANGE)
        arrow(ax, (409, y), (543, y), "execute")
        box(ax, 545, y - 22, 135, 44, end, BLUE, 10.5)


@drawing(180)
def async_timeline(ax):
    """Two lanes over time. The front end issues operations a, b and c in short steps and runs
    ahead of the back end, which executes them one after the other. At print(c) the front end
    waits until c is done.
    """
    issue = [(name, 0.8 * i, 0.7, SKY) for i, name in enumerate("abc")]
    lane(ax, 36, "front end\n(Python)", [*issue, ("print(c): wait", 2.4, 6.6, GREY)])
    lane(ax, 104, "back end\n(GPU)", [(n, 0.8 + 2.75 * i, 2.7, BLUE) for i, n in enumerate("abc")])
    lane(ax, 36, "", [("next", 9.05, 0.9, SKY)], length=0)
    for i in range(3):
        arrow(ax, (147 + 40 * i, 64), (173 + 137.5 * i, 104))
    arrow(ax, (580, 104), (580, 64), colour=RED)
    write(ax, 190, 20, "runs ahead", color=SOFT)
    write(ax, 590, 84, "c is done", ha="left", color=RED)
    time_axis(ax, 160)


@drawing(236)
def graph_break(ax):
    """A function of three lines. The first and the last line become compiled graphs; print between
    them runs in Python and splits the function in two.
    """
    code = "    y = x.sin() + 1", '    print("here")', "    return y.cos() * 2"
    parts = "compiled graph 1: sin, add", "Python: graph break", "compiled graph 2: cos, mul"
    write(ax, 30, 24, "def f(x):", 12.5, ha="left", family="monospace")
    for i, (line, part, colour) in enumerate(zip(code, parts, (RED, GREY, RED))):
        y = 48 + 62 * i
        ax.add_patch(Rectangle((22, y), 298, 46, facecolor=tint(colour), zorder=1))
        write(ax, 30, y + 23, line, 12.5, ha="left", family="monospace")
        arrow(ax, (326, y + 23), (424, y + 23), colour=colour)
        box(ax, 430, y, 250, 46, part, colour, 11.5)
        if i:
            arrow(ax, (555, y - 16), (555, y))


@drawing(265)
def data_parallel_step(ax):
    """One training step on two devices: the batch is split in halves, each device runs forward and
    backward on its half, the gradients are summed over both devices, and each device makes the
    same update.
    """
    heads = "split", "forward, backward", "sum gradients", "same update"
    for x, head in zip((62, 265, 478, 640), heads):
        write(ax, x, 20, head, 12, bold=True)
    write(ax, 62, 76, "batch")
    box(ax, 425, 60, 106, 180, "all-\nreduce", ORANGE, 12)
    for i, colour in enumerate(RANKS[:2]):
        y = 48 + 112 * i
        box(ax, 20, 92 + 54 * i, 84, 50, f"half {i}", colour)
        ax.add_patch(Rectangle((150, y), 232, 88, facecolor=PALE, edgecolor=colour, zorder=1))
        write(ax, 160, y + 16, f"device {i}", ha="left", color=colour, bold=True)
        box(ax, 162, y + 32, 96, 42, "forward", SKY)
        box(ax, 274, y + 32, 96, 42, "backward", BLUE)
        box(ax, 592, y + 32, 96, 42, "update", PURPLE)
        arrow(ax, (104, 117 + 54 * i), (162, y + 53))
        arrow(ax, (258, y + 53), (274, y + 53))
        arrow(ax, (370, y + 53), (425, y + 53), f"$g_{i}$", dx=6, dy=-14, size=12)
        arrow(ax, (531, y + 53), (592, y + 53), "$g_0{+}g_1$", dx=-2, dy=-14, size=12)


@drawing(258)
def three_splits(ax):
    """Three ways to split training over two devices. Split the network: each device has some of
    the layers. Split each layer: each device has half of every layer. Split the data: each device
    has all layers and half of the batch.
    """
    titles = "split the network", "split each layer", "split the data"
    for k, title in enumerate(titles):
        x0 = 94 + 212 * k
        write(ax, x0 + 88, 16, title, 12, bold=True)
        write(ax, x0 + 15, 42, "batch", 10.5, color=SOFT)
        write(ax, x0 + 115, 42, "layers", 10.5, color=SOFT)
        for d, colour in enumerate(RANKS[:2]):
            y = 60 + 124 * d
            ax.add_patch(Rectangle((x0 - 8, y - 6), 198, 72, fc=PALE, zorder=1))
            if not k:
                write(ax, 78, y + 30, f"device {d}", ha="right", color=colour, bold=True)
            if k or not d:  # the first layers read the batch
                below, height = (30 * d, 30) if k == 2 else (0, 60)
                cell(ax, x0, y + below, 30, height, "", GREY, 0.8)
            for layer in range(4):
                if k or layer // 2 == d:
                    below, height = (30 * d, 30) if k == 1 else (0, 60)
                    cell(ax, x0 + 46 + 36 * layer, y + below, 30, height, "", colour, 0.55)
        for layer in ((1.5,), (0.5, 1.5, 2.5), (1.5,))[k]:  # where they send
            x = x0 + 61 + 36 * layer
            arrow(ax, (x, 128), (x, 176), head="<|-|>")


def ring_steps(n):
    """Return how many ranks are summed, [rank][chunk]: first, after each of the two phases."""
    count = [[1] * n for _ in range(n)]
    states = [[row[:] for row in count]]
    for first, add in ((0, 1), (1, 0)):  # reduce-scatter, all-gather
        for step in range(n - 1):
            chunks = [(rank + first - step) % n for rank in range(n)]
            sent = [count[rank][chunk] for rank, chunk in enumerate(chunks)]
            for rank, chunk in enumerate(chunks):
                to = count[(rank + 1) % n]
                to[chunk] = sent[rank] + add * to[chunk]
        states.append([row[:] for row in count])
    return states


@drawing(270)
def ring_allreduce(ax):
    """Four ranks in a ring, each with four chunks. After three steps of reduce-scatter each rank
    holds one chunk summed over all ranks; after three steps of all-gather every rank holds all
    four sums.
    """
    at = [(64, 72), (176, 72), (176, 182), (64, 182)]
    for i, (x, y) in enumerate(at):
        box(ax, x - 32, y - 18, 64, 36, f"rank {i}", RANKS[i])
        (x1, y1), dx = at[(i + 1) % 4], (32, 0, -32, 0)[i]
        dy = (0, 18, 0, -18)[i]
        arrow(ax, (x + dx, y + dy), (x1 - dx, y1 - dy))
    write(ax, 120, 127, "each step:\none chunk\nto the next", 10)
    heads = "start", "reduce-scatter", "all-gather"
    notes = "no sums yet", "each rank has\none complete sum", "every rank has\nall sums"
    for k, state in enumerate(ring_steps(4)):
        x0 = 264 + 165 * k
        write(ax, x0 + 56, 24, heads[k], 12, bold=True)
        write(ax, x0 + 56, 222, notes[k], 10.5)
        for rank, row in enumerate(state):
            if not k:
                write(ax, x0 - 10, 66 + 38 * rank, str(rank), color=RANKS[rank], bold=True)
            for chunk, count in enumerate(row):
                cell(ax, x0 + 28 * chunk, 50 + 38 * rank, 27, 32, str(count), ORANGE, count / 4, 11)
        if k:
            arrow(ax, (x0 - 46, 130), (x0 - 7, 130), "3\nsteps", dy=-22)
    write(ax, 485, 256, "the number: how many ranks are summed in a chunk", 10.5, color=SOFT)


@drawing(300)
def column_row_parallel(ax):
    """X times A times B on two devices. A is split by columns, B by rows. Each device computes a
    part of the result of full size from its halves; an all-reduce adds the two parts.
    """

    def matrix(x, y, w, h, name, colours, rows=False):
        left, top, parts = x - w / 2, y - h / 2, len(colours)
        for i, colour in enumerate(colours):
            if rows:
                cell(ax, left, top + i * h / parts, w, h / parts, "", colour, 0.55)
            else:
                cell(ax, left + i * w / parts, top, w / parts, h, "", colour, 0.55)
        write(ax, x, y, name, 13)

    write(ax, 246, 16, "split by columns", color=SOFT)
    write(ax, 469, 16, "by rows", color=SOFT)
    both = RANKS[:2]
    lines = ("one device", "", both), ("device 0", "_0", both[:1]), ("device 1", "_1", both[1:])
    for k, (label, index, own) in enumerate(lines):
        y, w, h = 65 + 94 * k, 35 * len(own), 31 * len(own)
        write(ax, 16, y, label, ha="left", color=own[0] if k else INK, bold=True)
        matrix(149, y, 62, 46, "$X$", [GREY])
        matrix(246, y, w, 62, f"$A{index}$", own)
        arrow(ax, (290, y), (326, y), "GELU", dy=-12, size=10)
        matrix(370, y, w, 46, f"$Y{index}$", own)
        matrix(469, y, 62, h, f"$B{index}$", own, rows=True)
        matrix(563, y, 62, 46, f"$Z{index}$", own if k else [GREY])
        for x, sign in ((195, "×"), (420, "×"), (516, "=")):
            write(ax, x, y, sign, 14)
        if k:
            arrow(ax, (594, y), (618, y))
    box(ax, 618, 128, 96, 156, "all-reduce\n$Z = Z_0 + Z_1$", ORANGE, 10.5)


@drawing(290)
def fsdp(ax):
    """Two devices, each with one half of a piece's parameters W. An all-gather gives both the
    whole piece; they compute and free the other half. In the backward pass a reduce-scatter leaves
    each device with one half of the mean gradient G.
    """
    own, whole = ((0,), (1,)), ((0, 1), (0, 1))
    gather, scatter = ("all-\ngather", ORANGE), ("reduce-\nscatter", ORANGE)
    start = [("W", own, "half each"), ("W", whole, "whole piece")]
    lines = [("forward", [*start, ("W", own, "half each")], [gather, ("forward,\nfree", BLUE)]),
             ("backward", [*start, ("$G_d$", whole, "own gradients"),
                           (r"$\bar{G}$", own, "half the mean")],
              [gather, ("backward,\nfree", BLUE), scatter])]  # fmt: skip
    for k, (name, states, steps) in enumerate(lines):
        y = 50 + 140 * k
        write(ax, 16, y - 24, name, 12, ha="left", bold=True)
        for i in range(2):
            write(ax, 108, y + 15 + 40 * i, f"device {i}", ha="right", color=RANKS[i])
        for i, (letter, held, note) in enumerate(states):
            x = 124 + 168 * i
            write(ax, x + 34, y - 22, note, 10.5, color=SOFT)
            for d, part in ((0, 0), (0, 1), (1, 0), (1, 1)):
                there = part in held[d]
                at = x + 34 * part, y + 40 * d
                text = letter.replace("_d", f"_{d}") if there else ""
                cell(ax, *at, 33, 30, text, RANKS[part], 0.5 if there else 0.06, 11)
        for i, (text, colour) in enumerate(steps):
            x = 124 + 168 * i
            arrow(ax, (x + 72, y + 35), (x + 164, y + 35), text, colour, dy=-20, lw=2)


def pipeline_schedule(stages, batches, duration):
    """Return spans (stage, batch, start, kind): all forwards, then all backwards, when they can."""
    spans, free, done = [], [0.0] * stages, {}
    for kind, order in (("forward", range(stages)), ("backward", range(stages)[::-1])):
        for batch in range(batches):
            ready = done.get(batch, 0.0)
            for stage in order:
                start = max(free[stage], ready)
                ready = free[stage] = start + duration
                spans.append((stage, batch, start, kind))
            done[batch] = ready
    return spans


@drawing(336)
def pipeline(ax):
    """Four stages over time. With one batch, one stage works at a time and the others are idle 75
    percent of the time. With four micro-batches the stages overlap and the idle part, the bubble,
    is 43 percent.
    """
    for y, batches, title in ((40, 1, "one batch"), (200, 4, "four micro-batches")):
        duration, scale = 4 / batches, 17.5
        spans = pipeline_schedule(4, batches, duration)
        end = max(start + duration for _, _, start, _ in spans)
        for stage in range(4):
            write(ax, 96, y + 12 + 28 * stage, f"stage {stage}", ha="right")
            at, style = (104, y + 28 * stage), {"hatch": "///", "ec": "#C4C4C4", "lw": 0}
            ax.add_patch(Rectangle(at, scale * end, 25, fc="#EAEAEA", zorder=1, **style))
        for stage, batch, start, kind in spans:
            at = 104 + scale * start, y + 28 * stage
            cell(ax, *at, scale * duration, 25, str(batch), colour_of(kind))
        idle = 1 - len(spans) * duration / (4 * end)
        write(ax, 104, y - 16, f"{title}: {100 * idle:.0f} % idle (the bubble)", 12, ha="left")
    for x, name in ((500, "forward"), (600, "backward")):
        cell(ax, x, 20, 20, 16, "", colour_of(name))
        write(ax, x + 26, 28, name, ha="left")
    time_axis(ax, 326, 104, 664)


@drawing(290)
def streams(ax):
    """With one CUDA stream, copies and computations alternate. With two streams, the copy of the
    next batch runs beside the computation of the current one, and an event makes each
    computation wait for its copy.
    """
    copy, run = colour_of("copy"), colour_of("compute")
    one = [(f"copy {i}", 3.4 * i, 1.35, copy) for i in range(3)]
    one += [(f"compute {i}", 3.4 * i + 1.4, 1.95, run) for i in range(3)]
    write(ax, 20, 20, "one stream", 12, ha="left", bold=True)
    lane(ax, 36, "default stream", one)
    write(ax, 20, 98, "two streams", 12, ha="left", bold=True)
    lane(ax, 114, "copy stream", [(f"copy {i}", 1.4 * i, 1.35, copy) for i in range(3)])
    two = [(f"compute {i}", 1.4 + 2 * i, 1.95, run) for i in range(3)]
    lane(ax, 194, "default stream", two)
    for i in range(3):
        arrow(ax, (198 + 70 * i, 142), (202 + 100 * i, 194), colour=RED)
    write(ax, 420, 168, "event: compute i\nstarts after copy i", ha="left", color=RED)
    for x, top in ((498, 190), (638, 30)):
        ax.plot([x, x], [top, 246], color=SOFT, ls="--", lw=1.2)
    arrow(ax, (638, 236), (498, 236), "saved", colour=GREEN, head="<|-|>", dy=13)
    time_axis(ax, 272)


@drawing(285)
def parameter_server(ax):
    """Left: four workers push gradients to one server and pull parameters from it. Right: two
    servers hold one half of the parameters each, so that each server's link carries half of the
    traffic.
    """
    one = [("parameters", 160)]
    two = [("parameters\nfirst half", 80), ("parameters\nsecond half", 240)]
    for x0, servers, title in ((20, one, "one server"), (380, two, "two servers")):
        write(ax, x0 + 160, 20, title, 12, bold=True)
        for s, (name, x) in enumerate(servers):
            box(ax, x0 + x - 60, 44, 120, 54, name, GREY)
            for w in range(4):
                aside = 12 * s - 6 if len(servers) > 1 else 0
                start = x0 + 40 + 80 * w + aside, 206
                arrow(ax, start, (x0 + x - 33 + 22 * w, 98), colour=SOFT, lw=1.2, head="<|-|>")
        for w in range(4):
            box(ax, x0 + 3 + 80 * w, 206, 74, 38, f"worker {w}", RANKS[w], 10)
    write(ax, 360, 268, "up: push gradients        down: pull parameters", color=SOFT)


@drawing(262)
def computer(ax):
    """A processor with two cores, each with its caches L1 and L2, and a shared cache L3. Memory is
    beside the processor. A GPU with its own memory, an SSD and a network card are behind PCIe.
    """
    arrow(
        ax, (34, 30), (660, 30), "farther from the core: larger and slower", dy=-13, lw=1, size=11
    )
    ax.add_patch(Rectangle((20, 44), 382, 118, facecolor=PALE, edgecolor=GREY, zorder=1))
    box(ax, 292, 58, 96, 90, "L3", ORANGE, 12)
    for i in range(2):
        y = 58 + 50 * i
        for x, w, name, colour in (
            (34, 92, f"core {i}", BLUE),
            (140, 56, "L1", RED),
            (210, 68, "L2", GREEN),
        ):
            box(ax, x, y, w, 40, name, colour, 12)
            arrow(ax, (x + w, y + 20), (x + w + 14, y + 20), head="-", lw=2)
    write(ax, 211, 176, "processor", color=SOFT)
    box(ax, 470, 58, 190, 90, "memory", SKY, 12)
    arrow(ax, (388, 103), (470, 103), head="-", lw=2)
    arrow(ax, (346, 162), (346, 190), head="-", lw=2)
    arrow(ax, (60, 190), (660, 190), "PCIe", dx=95, head="-", lw=2)
    devices = (60, 210, "GPU | its own memory"), (310, 120, "SSD"), (470, 190, "network card")
    for x, w, name in devices:
        arrow(ax, (x + w / 2, 190), (x + w / 2, 210), head="-", lw=2)
        box(ax, x, 210, w, 40, name, PURPLE, 12)


@drawing(338)
def five_frameworks(ax):
    """Five rows, one for each framework, with what it goes through, the record that it makes, what
    rewrites the record, and what runs in the end. torch.compile and JAX generate code; TensorFlow,
    MXNet and ONNX Runtime run kernels that were compiled with them.
    """
    rows = {
        "torch.compile": (
            "bytecode",
            "graph",
            "AOTAutograd,\nInductor",
            "new loops in\nC++ or Triton",
        ),
        "JAX": ("a call", "jaxpr", "XLA", "new machine\ncode"),
        "TensorFlow": ("source,\nthen a call", "graph", "Grappler", "its kernels"),
        "MXNet": ("a call", "graph", "memory plan", "its kernels"),
        "ONNX Runtime": ("torch.export", "ONNX file", "session", "its kernels"),
    }
    colours = ORANGE, SKY, GREEN, GREY
    for k, title in enumerate(("goes through", "records", "rewrites", "runs")):
        write(ax, 196 + 152 * k, 20, title, bold=True)
    for i, (name, stages) in enumerate(rows.items()):
        y = 40 + 60 * i
        write(ax, 122, y + 22, name, ha="right")
        for k, (stage, colour) in enumerate(zip(stages, colours)):
            x = 134 + 152 * k
            box(ax, x, y, 124, 44, stage, RED if stage.startswith("new") else colour, 10.5)
            if k:
                arrow(ax, (x - 28, y + 22), (x, y + 22))


@drawing(250)
def float_formats(ax):
    """Bits of three number formats, to scale. float32: 1 sign, 8 exponent and 23 fraction bits.
    bfloat16: 1, 8 and 7. float16: 1, 5 and 10.
    """
    names = "sign", "exponent: range", "fraction: precision"
    for x, name, colour in zip((100, 180, 345), names, (RED, ORANGE, BLUE)):
        cell(ax, x, 14, 16, 16, "", colour, 0.6)
        write(ax, x + 24, 22, name, ha="left")
    formats = [("float32", 8, 23, "up to 3.4 × 10³⁸, 7 digits"),
               ("bfloat16", 8, 7, "up to 3.4 × 10³⁸, 2 to 3 digits"),
               ("float16", 5, 10, "up to 65,504, 3 to 4 digits")]  # fmt: skip
    for k, (name, exponent, fraction, text) in enumerate(formats):
        y, x = 48 + 72 * k, 100
        write(ax, 92, y + 15, name, 12, ha="right", bold=True)
        for bits, colour in ((1, RED), (exponent, ORANGE), (fraction, BLUE)):
            for _ in range(bits):
                cell(ax, x, y, 19, 30, "", colour, 0.6)
                x += 19
            plain = {"facecolor": tint(colour, 0.6), "edgecolor": "none", "pad": 1.5}
            words = f"{bits} bits" if bits > 1 else ""
            write(ax, x - 19 * bits / 2, y + 15, words, bbox=plain if words else None)
        write(ax, x + 16 if k else 100, y + 15 if k else y + 47, text, ha="left")


def save(name):
    """Write NAME.svg and NAME.png."""
    function, height = DRAWINGS[name]
    figure = plt.figure(figsize=(WIDTH / 100, height / 100))
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
    ax.set_axis_off()
    function(ax)
    path = Path(__file__).with_name(f"{name}.png")
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
    figure.savefig(path, dpi=200, metadata={"Software": None})
    plt.close(figure)
    with Image.open(path) as image:  # a palette is enough, and small
        small = image.convert("RGB").quantize(96, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


if __name__ == "__main__":
    with plt.rc_context({"svg.hashsalt": "d2lperf", "hatch.linewidth": 0.8}):
        for chosen in sys.argv[1:] or DRAWINGS:
            save(chosen)
