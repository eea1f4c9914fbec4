"""Wrong answers to the exercises of notebook 01b: each must be found out, with a reason."""

WRONG = {
    "paired_ratio": [
        # sums: one interruption weighs as much as many pairs
        "def paired_ratio(a_s, b_s):\n    return np.sum(b_s) / np.sum(a_s)",
        # ratio of medians: the pairing is lost
        "def paired_ratio(a_s, b_s):\n    return np.median(b_s) / np.median(a_s)",
        # geometric mean: symmetric, but interruptions count
        "def paired_ratio(a_s, b_s):\n    return np.exp(np.mean(np.log(b_s) - np.log(a_s)))",
        # the median of the ratios: of an even number of pairs, not symmetric
        "def paired_ratio(a_s, b_s):\n    return np.median(np.asarray(b_s) / a_s)",
        # trimmed mean of the ratios: robust, but not symmetric
        "def paired_ratio(a_s, b_s):\n"
        "    ratios = np.sort(np.asarray(b_s) / a_s)\n"
        "    k = len(ratios) // 4\n"
        "    return ratios[k:-k].mean()",
        # upside down
        "def paired_ratio(a_s, b_s):\n    return np.exp(np.median(np.log(a_s) - np.log(b_s)))",
    ],
    "turns": [
        "def turns(n, rng):\n    return ['ABBA'] * n",
        "def turns(n, rng):\n    return ['ABAB'] * n",
        # mirrored in turn: nothing is left to chance
        "def turns(n, rng):\n    return (['ABBA', 'BAAB'] * n)[:n]",
        # every order, also those in which a drift stays
        "def turns(n, rng):\n    return [''.join(rng.sample('AABB', 4)) for _ in range(n)]",
        # a generator of its own
        "def turns(n, rng):\n"
        "    import random\n"
        "    own = random.Random()\n"
        "    return [own.choice(['ABBA', 'BAAB']) for _ in range(n)]",
        # chance chooses once, then strict alternation
        """\
def turns(n, rng):
    first = rng.choice(["ABBA", "BAAB"])
    second = "BAAB" if first == "ABBA" else "ABBA"
    return ([first, second] * n)[:n]
""",
        # as many as in the text's example, whatever n
        """\
def turns(n, rng):
    return [rng.choice(["ABBA", "BAAB"]) for _ in range(200)]
""",
        # one half of each, not mixed
        """\
def turns(n, rng):
    halves = ["ABBA", "BAAB"]
    rng.shuffle(halves)
    return [halves[0]] * (n // 2) + [halves[1]] * (n - n // 2)
""",
        # a pattern that chance has chosen, again and again
        """\
def turns(n, rng):
    pattern = ["ABBA", "BAAB", "ABBA", "ABBA", "BAAB", "BAAB"]
    rng.shuffle(pattern)
    return (pattern * n)[:n]
""",
    ],
    "may_claim": [
        # the estimate alone
        "def may_claim(comparison, name, saving):\n"
        "    return 'yes' if comparison[name].ratio <= 1 - saving else 'no'",
        # the verdict says nothing about how much
        "def may_claim(comparison, name, saving):\n"
        "    return 'yes' if comparison[name].verdict == 'faster' else 'no'",
        # the better end of the interval
        "def may_claim(comparison, name, saving):\n"
        "    return 'yes' if comparison[name].low <= 1 - saving else 'no'",
        # never in doubt
        """\
def may_claim(comparison, name, saving):
    return "yes" if comparison[name].high <= 1 - saving else "no"
""",
        # 20 % faster is not 20 % less time
        """\
def may_claim(comparison, name, saving):
    ratio = comparison[name]
    if ratio.high <= 1 / (1 + saving):
        return "yes"
    return "no" if ratio.low > 1 / (1 + saving) else "cannot tell"
""",
    ],
    "rounds_needed": [
        "def rounds_needed(n, half_width, target):\n"
        "    return max(6, math.ceil(n * half_width / target))",
        "def rounds_needed(n, half_width, target):\n"
        "    return max(6, int(n * (half_width / target) ** 2))",
        "def rounds_needed(n, half_width, target):\n"
        "    return math.ceil(n * (half_width / target) ** 2)",
        # always one more
        """\
def rounds_needed(n, half_width, target):
    return max(6, int(n * (half_width / target) ** 2) + 1)
""",
        # not a number of rounds
        """\
def rounds_needed(n, half_width, target):
    return max(6, n * (half_width / target) ** 2)
""",
    ],
}

ALSO_RIGHT = {
    "paired_ratio": [
        # another robust centre of the logarithms
        "def paired_ratio(a_s, b_s):\n"
        "    return math.exp(stats.hodges_lehmann(np.log(b_s) - np.log(a_s)))",
        # the median of Python's library
        """\
def paired_ratio(a_s, b_s):
    import statistics
    return math.exp(statistics.median(math.log(b) - math.log(a) for a, b in zip(a_s, b_s)))
""",
        # a tensor
        """\
def paired_ratio(a_s, b_s):
    return torch.tensor(np.log(b_s / a_s)).quantile(0.5).exp()
""",
        # in single precision
        """\
def paired_ratio(a_s, b_s):
    return np.float32(np.exp(np.median(np.log(b_s) - np.log(a_s))))
""",
    ],
    "turns": [
        """\
def turns(n, rng):
    return rng.choices(["ABBA", "BAAB"], k=n)
""",
        # as many of each, shuffled, and letters instead of a text
        """\
def turns(n, rng):
    orders = [["A", "B", "B", "A"], ["B", "A", "A", "B"]] * n
    rng.shuffle(orders)
    return orders[:n]
""",
        """\
def turns(n, rng):
    return np.array(["ABBA" if rng.random() < 0.5 else "BAAB" for _ in range(n)])
""",
    ],
    "may_claim": [
        # in fractions saved
        """\
def may_claim(comparison, name, saving):
    least, most = 1 - comparison[name].high, 1 - comparison[name].low
    if least >= saving:
        return "yes"
    if most < saving:
        return "no"
    return "cannot tell"
""",
        """\
def may_claim(comparison, name, saving):
    ends = [comparison[name].low <= 1 - saving, comparison[name].high <= 1 - saving]
    return {2: "yes", 1: "cannot tell", 0: "no"}[sum(ends)]
""",
    ],
    "rounds_needed": [
        # the same formula, written otherwise: rounds otherwise
        "def rounds_needed(n, half_width, target):\n"
        "    return max(6, math.ceil(n * half_width**2 / target**2))",
        "def rounds_needed(n, half_width, target):\n"
        "    return max(6, math.ceil(n * (half_width / target) ** 2))",
        # a whole number as a float
        """\
def rounds_needed(n, half_width, target):
    return np.maximum(6, np.ceil(n * (half_width / target) ** 2))
""",
        # one more until it is narrow enough
        """\
def rounds_needed(n, half_width, target):
    rounds = 6
    while half_width * math.sqrt(n / rounds) > target:
        rounds += 1
    return np.int64(rounds)
""",
    ],
}
