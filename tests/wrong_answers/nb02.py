"""Wrong answers to the exercises of notebook 02: each must be found out, with a reason."""

WRONG = {
    "bytes_moved": [
        # fused means: read once, write once; other inputs forgotten
        "def bytes_moved(operations, nbytes):\n"
        "    return sum(len(set(i)) + 1 for _, i in operations) * nbytes, 2 * nbytes",
        # reads only
        "def bytes_moved(operations, nbytes):\n"
        "    made = {n for n, _ in operations}\n"
        "    outside = {i for _, inputs in operations for i in inputs} - made\n"
        "    return sum(len(set(i)) for _, i in operations) * nbytes, len(outside) * nbytes",
        # every use in the fused loop counted as a read from memory
        "def bytes_moved(operations, nbytes):\n"
        "    unfused = sum(len(set(i)) + 1 for _, i in operations)\n"
        "    made = {n for n, _ in operations}\n"
        "    reads = sum(i not in made for _, inputs in operations for i in set(inputs))\n"
        "    return unfused * nbytes, (reads + 1) * nbytes",
        # x * x read twice
        "def bytes_moved(operations, nbytes):\n"
        "    made = {n for n, _ in operations}\n"
        "    outside = {i for _, inputs in operations for i in inputs} - made\n"
        "    return sum(len(i) + 1 for _, i in operations) * nbytes, (len(outside) + 1) * nbytes",
        # not a pair
        """\
def bytes_moved(operations, nbytes):
    return sum(len(set(inputs)) + 1 for _, inputs in operations) * nbytes
""",
    ],
    "calls_needed": [
        # equal is not less
        "def calls_needed(first_s, eager_s, later_s):\n"
        "    if first_s < eager_s:\n"
        "        return 1\n"
        "    if later_s >= eager_s:\n"
        '        return float("inf")\n'
        "    return -((later_s - first_s) // (eager_s - later_s))",
        # the first call computes a result, too
        "def calls_needed(first_s, eager_s, later_s):\n"
        "    if later_s >= eager_s:\n"
        '        return float("inf")\n'
        "    return first_s // (eager_s - later_s) + 1",
        # a saving where there is none
        "def calls_needed(first_s, eager_s, later_s):\n"
        "    saved_s = abs(eager_s - later_s) or 1\n"
        "    return (first_s - later_s) // saved_s + 1",
        # as much is not less
        """\
def calls_needed(first_s, eager_s, later_s):
    if first_s < eager_s:
        return 1
    if later_s >= eager_s:
        return float("inf")
    return max(1, -int(-(first_s - later_s) // (eager_s - later_s)))
""",
    ],
    "pays_from": [
        # the overhead counted as memory traffic
        "def pays_from(eager_s, compiled_s, many_s, n, separate, fused):\n"
        "    price_s = compiled_s - eager_s\n"
        "    if price_s <= 0:\n"
        "        return 0.0\n"
        "    if separate == fused:\n"
        '        return float("inf")\n'
        "    return price_s / ((separate - fused) * many_s / separate / n)",
        # the fused loop moves nothing
        """\
def pays_from(eager_s, compiled_s, many_s, n, separate, fused):
    if compiled_s <= eager_s:
        return 0.0
    if separate == fused:
        return float("inf")
    return n * (compiled_s - eager_s) / (many_s - eager_s)
""",
        # below nothing
        """\
def pays_from(eager_s, compiled_s, many_s, n, separate, fused):
    if separate == fused:
        return float("inf")
    vector_s = (many_s - eager_s) / separate
    return n * (compiled_s - eager_s) / ((separate - fused) * vector_s)
""",
        # nothing to fuse
        """\
def pays_from(eager_s, compiled_s, many_s, n, separate, fused):
    if compiled_s <= eager_s or separate == fused:
        return 0.0
    vector_s = (many_s - eager_s) / separate
    return n * (compiled_s - eager_s) / ((separate - fused) * vector_s)
""",
    ],
}

ALSO_RIGHT = {
    "bytes_moved": [
        # a list, counted in a loop
        """\
def bytes_moved(operations, nbytes):
    vectors, made, outside = 0, set(), set()
    for name, inputs in operations:
        vectors += len(set(inputs)) + 1
        outside |= set(inputs) - made
        made.add(name)
    return [vectors * nbytes, (len(outside) + 1) * nbytes]
""",
        # an array
        """\
def bytes_moved(operations, nbytes):
    import numpy as np

    made = [name for name, _ in operations]
    reads = [i for _, inputs in operations for i in dict.fromkeys(inputs)]
    fused = len(set(reads).difference(made)) + 1
    return nbytes * np.array([len(reads) + len(made), fused])
""",
    ],
    "calls_needed": [
        # one call after another
        """\
def calls_needed(first_s, eager_s, later_s):
    if later_s >= eager_s and first_s >= eager_s:
        return float("inf")
    calls, compiled_s = 1, first_s
    while compiled_s >= calls * eager_s:
        calls, compiled_s = calls + 1, compiled_s + later_s
    return calls
""",
        # by a quotient
        """\
def calls_needed(first_s, eager_s, later_s):
    if first_s < eager_s:
        return 1
    if later_s >= eager_s:
        return float("inf")
    return int((first_s - later_s) / (eager_s - later_s)) + 1
""",
        # many at once
        """\
def calls_needed(first_s, eager_s, later_s):
    import numpy as np

    calls = np.arange(1, 10_000)
    pays = first_s + (calls - 1) * later_s < calls * eager_s
    return calls[pays][0] if pays.any() else np.inf
""",
    ],
    "pays_from": [
        # by numbers
        """\
def pays_from(eager_s, compiled_s, many_s, n, separate, fused):
    number_s = (many_s - eager_s) / (n * separate)
    saved_s = number_s * (separate - fused)
    price_s = max(0, compiled_s - eager_s)
    if saved_s == 0:
        return float("inf") if price_s else 0
    return price_s / saved_s
""",
        # an array
        """\
def pays_from(eager_s, compiled_s, many_s, n, separate, fused):
    import numpy as np

    if compiled_s <= eager_s:
        return np.zeros(1)
    with np.errstate(divide="ignore"):
        share = np.float64(separate) / np.float64(separate - fused)
    return np.array([n * (compiled_s - eager_s) / (many_s - eager_s) * share])
""",
    ],
}
