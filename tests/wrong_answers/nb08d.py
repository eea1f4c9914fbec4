"""Wrong answers to the exercises of notebook 08d: each must be found out, with a reason."""

WRONG = {
    "buckets": [
        # from the first gradient to the last
        "def buckets(sizes, first, cap):\n"
        "    full, held = [], 0\n"
        "    for size in sizes:\n"
        "        held += size\n"
        "        if held >= (cap if full else first):\n"
        "            full.append(held)\n"
        "            held = 0\n"
        "    return full + [held] if held else full",
        # the first bucket like all others
        "def buckets(sizes, first, cap):\n"
        "    full, held = [], 0\n"
        "    for size in reversed(sizes):\n"
        "        held += size\n"
        "        if held >= cap:\n"
        "            full.append(held)\n"
        "            held = 0\n"
        "    return full + [held] if held else full",
        # what is left is lost
        "def buckets(sizes, first, cap):\n"
        "    full, held = [], 0\n"
        "    for size in reversed(sizes):\n"
        "        held += size\n"
        "        if held >= (cap if full else first):\n"
        "            full.append(held)\n"
        "            held = 0\n"
        "    return full",
        # one more bucket, without gradients
        """\
def buckets(sizes, first, cap):
    full, held = [], 0
    for size in reversed(sizes):
        held += size
        if held >= (cap if full else first):
            full.append(held)
            held = 0
    return [*full, held]
""",
        # no bucket above its limit
        "def buckets(sizes, first, cap):\n"
        "    full, held = [], 0\n"
        "    for size in reversed(sizes):\n"
        "        if held and held + size > (cap if full else first):\n"
        "            full.append(held)\n"
        "            held = 0\n"
        "        held += size\n"
        "    return full + [held]",
    ],
}

ALSO_RIGHT = {
    "buckets": [
        # lists of gradients
        """\
def buckets(sizes, first, cap):
    found = [[]]
    for size in sizes[::-1]:
        limit = first if len(found) == 1 else cap
        if sum(found[-1]) >= limit:
            found.append([])
        found[-1].append(size)
    return tuple(map(sum, found))
""",
        # an array
        """\
def buckets(sizes, first, cap):
    full, limit = [0.0], first
    for size in reversed(sizes):
        if full[-1] >= limit:
            full.append(0)
            limit = cap
        full[-1] += size
    return np.array(full)
""",
    ],
}
