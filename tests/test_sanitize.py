"""tests/sanitize.cfg: what counts as the same output, and what must not."""

import re
from pathlib import Path

import pytest

plugin = pytest.importorskip("nbval.plugin", reason="nbval reads the file in its own way")

CONFIG = Path(__file__).with_name("sanitize.cfg")
PATTERNS = dict(plugin.get_sanitize_patterns(CONFIG.read_text(encoding="ascii")))


def sanitize(text):
    """As nbval does it: every pattern on the whole text, in the order of the file."""
    for pattern, replacement in PATTERNS.items():
        text = re.sub(pattern, replacement, text)
    return text


TABLE = """\
           median time   first call   time relative to eager   verdict
eager          37.1 µs      20.0 ms   1 (baseline)
scripted       28.2 µs      1.25 ms   0.760 [0.752, 0.768]     faster
95 % intervals from 24 rounds in 0.51 s (2 discarded)
The ratio leaves out disturbed calls, so it may differ from the ratio of the medians.
"""
TABLE_ON_A_BUSY_MACHINE = """\
           median time   first call   time relative to eager   verdict
eager          1.22 ms       1.20 s   1 (baseline)
scripted       1.19 ms      1.35 ms   0.981 [0.902, 1.068]     not decided
95 % intervals from 120 to 128 rounds in 1.17 s (0 to 8 discarded)
The ratio leaves out disturbed calls, so it may differ from the ratio of the medians.
not decided (scripted): 'scripted' varies by itself: its time changes (a lot); time many
note: two levels of scripted: 1.05 ms and 2.40 ms
"""
HTML = "<tr><th>scripted</th><td>28.2 µs</td><td>0.760 [0.752, 0.768]</td><td>faster</td></tr>"
SWEEP = """\
 rows              median time   time relative to the baseline   verdict
   10   eager           100 µs   1 (baseline)
   10   scripted       80.2 µs   0.800 [0.798, 0.802]            faster
1,000   eager           100 µs   1 (baseline)
1,000   scripted        100 µs   1.003 [1.000, 1.005]            no difference above 1 %
95 % intervals; 0.75 s in all
The ratio leaves out disturbed calls, so it may differ from the ratio of the medians.
not decided (scripted): the interval is wide (rows 1,000)
"""
SWEEP_ON_ANOTHER_MACHINE = (
    SWEEP.replace("1.003 [1.000, 1.005] ", "0.903 [0.900, 0.905] ")
    .replace("no difference above 1 %\n", "faster\n")
    .replace("not decided (scripted): the interval is wide (rows 1,000)\n", "")
)
SCORE = "8 rows against 1 row: predicted 1.00, measured 1.89 [1.84, 1.95], off by a factor of 1.9"
SCORE_HTML = (
    "<td style='text-align:left'>a step</td><td class='score'>20.0 ms</td>"
    "<td class='score'>31.0 ms</td><td class='score'>off by a factor of 1.6</td>"
)
SCORE_TABLE = (
    "<th style='text-align:left'>this run</th><th style='text-align:left'>recorded on H200</th>"
    "<td style='text-align:left'>a step</td><td class='score'>31.0 ms</td>"
    "<td class='score'>9.00 ms</td><td class='score'>as predicted</td>"
)

SAME = {
    "table": (TABLE, TABLE_ON_A_BUSY_MACHINE),
    "html": (HTML, HTML.replace("28.2 µs", "1.3 ms").replace("faster", "no difference above 2 %")),
    "html with style": (
        '0.760 [0.752, 0.768]</td>\n  <td style="text-align: left">faster</td>',
        '1.160 [1.152, 1.268]</td>\n  <td style="text-align: left">slower</td>',
    ),
    "differences": ("loses 0.005 [-0.002, 0.012]", "loses -0.011 [-0.022, -0.003]"),
    "the book's line": ("eager: 0.1234 sec", "eager: 12.0000 sec"),
    "units": ("37.1 µs, 5 ns, 1.2 ms", "1,237.1 us, 0.5 ns, 12 ms"),
    "a difference below zero": ("gap  4.3 ms (2 ms)", "gap -0.1 ms (-3 ms)"),
    "a difference below zero in a table": ("<td>0.05 ms</td>", "<td>-0.40 ms</td>"),
    "minutes": ("after 2 minutes", "after 1 minutes"),
    "both micro signs": ("3 \u00b5s", "4 \u03bcs"),
    "time in markdown": ("**37.1 µs** a call", "**9.2 µs** a call"),
    "huge ratio": ("12.0 [3.1, inf]", "1200.0 [800.1, 2100.5]"),
    "interval of a median, where a few samples have none": (
        "interval     9.00 µs to 9.16 µs (95 %)\nquartiles    8.92 µs to 10.2 µs",
        "interval     unknown: too few samples\nquartiles    8.92 µs to 10.2 µs",
    ),
    "the same in HTML": (
        "<td>interval</td><td>9.00 µs to 9.16 µs (95 %)</td>",
        "<td>interval</td><td>unknown: too few samples</td>",
    ),
    "no ratio": ("<td>unknown</td>", "<td>0.981 [unknown]</td>"),
    "verdict in brackets": ("faster (0.760 [0.752, 0.768])", "slower (1.76 [1.72, 1.78])"),
    "why there is no verdict, html": (
        "</table><div>(0 discarded)</div><div>not decided (a): only 6</div><div>note: a</div>",
        "</table><div>(1 discarded)</div>",
    ),
    "a table over sizes": (SWEEP, SWEEP_ON_ANOTHER_MACHINE),
    "score": (SCORE, "8 rows against 1 row: predicted 1.00, measured 1.02, as predicted"),
    "score of a computed prediction": (
        "a step: predicted 20.1 ms, measured 31.0 ms, off by a factor of 1.5",
        "a step: predicted 1.25 s, measured 950 µs, off by a factor of 1316",
    ),
    "another machine's column, where nothing is recorded": (
        SCORE_TABLE,
        SCORE_TABLE.replace("<th style='text-align:left'>recorded on H200</th>", "").replace(
            "<td class='score'>9.00 ms</td>", ""
        ),
    ),
    "another machine's number": (f"{SCORE}\n  recorded on H200: 9.00 ms\nend", f"{SCORE}\nend"),
    "score of a guess": (
        f"{SCORE}\n  your guess 2.00, off by a factor of 1.1",
        f"{SCORE}\n  your guess 2.00, right",
    ),
    "break-even": (
        "break-even of compiled against eager: after 3,251 calls [3,100, 3,400]",
        "break-even of compiled against eager: never (slower)",
    ),
    "break-even of a compiler": (
        "compiling with inductor: 17.8 s; break-even: never",
        "compiling with inductor: 16.1 s; break-even: 3,377 steps",
    ),
    "claim without a round": (
        "claim borne out: a is faster than b (time ratio 0.760 [0.752, 0.768])",
        "claim open here: a is faster than b (time ratio unknown; the budget is too small)",
    ),
    "one ratio": (
        "scripted against eager: 0.760 [0.752, 0.768] faster",
        "scripted against eager: unknown not decided (the interval is wide (a lot); longer)",
    ),
    "samples of a measurement": (
        "  samples     35 of 1024 calls each",
        "  samples     40 of 8 calls each",
    ),
    "about": ("pays back after ≈ 1,234 calls", "pays back after ≈ 87 calls"),
    "memory": ("12.3 MiB at 3.1 GB/s", "1 GiB at 12.7 GB/s"),
    "rate": ("51.0 GFLOP/s", "3.2 TFLOP/s"),
    "factor": ("a factor of 3.4 × here", "a factor of 12.9 × here"),
    "version": ("torch 2.13.0+cpu, Python 3.11.7", "torch 2.6.1, Python 3.14.0rc1"),
    "version in html": ("<th>torch</th><td>2.13.0+cpu</td>", "<th>torch</th><td>2.6.1</td>"),
    "figure": ("<Figure size 640x480 with 1 Axes>", "<Figure size 700x261.5 with 1 Axes>"),
    "address": ("<object at 0x7f3a5b2c1d00>", "<object at 0x55d0c8a91f>"),
    "temporary folder": ("/tmp/tmpab12cd_3/my_mlp", "/var/folders/zz/x1y2_3/T/tmp9/my_mlp"),
    "temporary folder on Windows": (
        r"C:\Users\me\AppData\Local\Temp\tmp12\a",
        r"D:\Users\you\Temp\tmpxyz\a",
    ),
    "ruler": ("name  \n------", "name\n----------"),
    "marked sentence": ("On this machine: the script wins.\nend", "On this machine: a draw.\nend"),
}

DIFFERENT = {
    "bare number": ("the sum is 10", "the sum is 11"),
    "bare decimal": ("tensor([0.123, 0.456])", "tensor([0.123, 0.457])"),
    "list after a number": ("3 [1, 2]", "3 [1, 3]"),
    "matrix row": ("0.5 [0.25, 0.5, 1.0]", "0.5 [0.25, 0.5, 2.0]"),
    "word": ("TorchScript is faster", "TorchScript is slower"),
    "name in a table": (TABLE, TABLE.replace("scripted", "compiled")),
    "row of a table": (TABLE, TABLE.replace("scripted       28.2", "frozen  1 µs\nscripted 28.2")),
    "heading of a table": (TABLE, TABLE.replace("relative to eager", "relative to scripted")),
    "claim reversed": (
        "claim borne out: a is faster than b (time ratio 0.760 [0.752, 0.768])",
        "claim borne out: b is faster than a (time ratio 0.760 [0.752, 0.768])",
    ),
    "claim turned": (
        "claim borne out: a is faster than b (time ratio 0.760 [0.752, 0.768])",
        "claim borne out: a is slower than b (time ratio 0.760 [0.752, 0.768])",
    ),
    "claim gone": (
        "claim borne out: a is faster than b (time ratio 0.760 [0.752, 0.768])",
        "a is faster than b (time ratio 0.760 [0.752, 0.768])",
    ),
    "label of a score": (SCORE, SCORE.replace("8 rows", "9 rows")),
    "a prediction that is not measured": (SCORE, "8 rows against 1 row: predicted 1.00"),
    "label of a score in a table": (SCORE_HTML, SCORE_HTML.replace("a step", "a stop")),
    "columns of a table of scores": (SCORE_TABLE, SCORE_TABLE.replace("this run", "published")),
    "rows of a table of scores": (
        SCORE_TABLE,
        SCORE_TABLE + SCORE_TABLE[SCORE_TABLE.index("<td") :],
    ),
    "another score": (SCORE, f"{SCORE}\n{SCORE}"),
    "a sentence with predicted and measured": (
        "predicted 1, measured 2",
        "predicted 1, measured 3",
    ),
    "a guess in words": ("your guess is 3", "your guess is 4"),
    "names of a break-even": (
        "break-even of compiled against eager: never (slower)",
        "break-even of eager against compiled: never (slower)",
    ),
    "value of a sweep": (SWEEP, SWEEP.replace("  10   scripted", "  20   scripted")),
    "unknown elsewhere": ("unknown: 1", "unknown: 2"),
    "discarded elsewhere": ("2 files discarded", "3 files discarded"),
    "names of a ratio": (
        "scripted against eager: 0.760 [0.752, 0.768] faster",
        "compiled against eager: 0.760 [0.752, 0.768] faster",
    ),
    "after a ratio": (
        "a against b: 0.981 [unknown] not decided (few)\n4 kernels",
        "a against b: 0.981 [unknown] not decided (few)\n5 kernels",
    ),
    "verdict away from an interval": ("the verdict: faster", "the verdict: slower"),
    "unit of a count": ("from 24 rounds in", "from 24 pairs in"),
    "rounds elsewhere": ("24 rounds", "25 rounds"),
    "after the marked sentence": (
        "On this machine: yes.\n4 kernels",
        "On this machine: no.\n5 kernels",
    ),
    "before the marked sentence": ("3. On this machine: yes.", "4. On this machine: yes."),
    "bytes are exact": ("keeps 16 bytes alive", "keeps 24 bytes alive"),
    "a number after the one about": ("≈ 3 of 40", "≈ 3 of 41"),
    "the reason alone": ("not decided (a): it is wide", "not decided (a): it is late"),
    "after the reason": ("x\nnot decided (a): wide\n4 kernels", "x\n5 kernels"),
    "a line that starts with a verdict": ("x\nfaster: 4 kernels", "x\nfaster: 5 kernels"),
    "calls": ("1000 calls", "1001 calls"),
    "count of samples": ("12 samples", "13 samples"),
    "shape": ("torch.Size([1, 512])", "torch.Size([1, 256])"),
    "product": ("3 x 4", "3 x 5"),
    "axes of a figure": ("<Figure size 640x480 with 1 Axes>", "<Figure size 640x480 with 2 Axes>"),
    "small hexadecimal": ("0x1f", "0x2f"),
    "identifier that ends in a unit": ("x2 ms", "x3 ns"),
    "minus between two times": ("5-7 ms", "57 ms"),
    "line breaks": ("a\nb", "a b"),
    "file in a temporary folder": ("/tmp/tmpab/a.pt", "/tmp/tmpab/b.pt"),
    "unit of memory": ("12.3 MiB", "12.3 metres"),
}


@pytest.mark.parametrize("left, right", SAME.values(), ids=SAME)
def test_counts_as_the_same(left, right):
    assert left != right
    assert sanitize(left) == sanitize(right)


@pytest.mark.parametrize("left, right", DIFFERENT.values(), ids=DIFFERENT)
def test_still_differs(left, right):
    assert sanitize(left) != sanitize(right)


def test_every_pair_of_the_file_is_read():
    lines = CONFIG.read_text(encoding="ascii").splitlines()
    regexes = [line for line in lines if line.startswith("regex:")]
    assert len(PATTERNS) == len(regexes), (
        "a regex has no replace line right after it, or is there twice"
    )
    assert not [line for line in lines if line != line.rstrip()], (
        "an editor would strip these spaces"
    )
