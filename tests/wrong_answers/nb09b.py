"""Wrong answers to the exercises of notebook 09b: each must be found out, with a reason."""

WRONG = {
    "without_slowest": [
        # waits for all
        "def without_slowest(pauses, spare):\n    return sum(max(step) for step in zip(*pauses))",
        # the same workers are left out in each step
        """\
def without_slowest(pauses, spare):
    kept = sorted(pauses, key=sum)[: len(pauses) - spare]
    return sum(max(step) for step in zip(*kept))
""",
        # no step ends for all: each worker goes on by itself
        """\
def without_slowest(pauses, spare):
    return sorted(sum(row) for row in pauses)[len(pauses) - spare - 1]
""",
        # counts from the quickest
        """\
def without_slowest(pauses, spare):
    return sum(sorted(step)[spare] for step in zip(*pauses))
""",
    ],
    "homes": [
        # modulo: almost everything moves
        "def homes(key, servers, copies):\n"
        "    order = sorted(servers)\n"
        "    return [order[(key + i) % len(order)] for i in range(copies)]",
        # depends on the order of the names
        "def homes(key, servers, copies):\n"
        "    return [servers[(key + i) % len(servers)] for i in range(copies)]",
        # always the same servers
        "def homes(key, servers, copies):\n    return sorted(servers)[:copies]",
        # the same server twice
        "import hashlib\n\n\n"
        "def homes(key, servers, copies):\n"
        "    best = max(servers, key=lambda s: hashlib.sha256(f'{key} {s}'.encode()).digest())\n"
        "    return [best] * copies",
        # a checksum is not random enough: some servers have much more
        "import zlib\n\n\n"
        "def homes(key, servers, copies):\n"
        "    ranked = sorted(servers, key=lambda s: zlib.crc32(f'{key} {s}'.encode()))\n"
        "    return ranked[:copies]",
        # random: no two workers agree
        "import random\n\n\n"
        "def homes(key, servers, copies):\n"
        "    return random.sample(servers, copies)",
        # Python's hash of a text differs from process to process
        """\
def homes(key, servers, copies):
    return sorted(servers, key=lambda name: hash(f"{key} {name}"))[:copies]
""",
    ],
    "compress": [
        # the largest with their sign
        "def compress(gradient, left, k):\n"
        "    total = gradient + left\n"
        "    places = total.topk(k).indices\n"
        "    left = total.clone()\n"
        "    left[places] = 0\n"
        "    return places, total[places], left",
        # what was left is forgotten
        "def compress(gradient, left, k):\n"
        "    places = gradient.abs().topk(k).indices\n"
        "    left = gradient.clone()\n"
        "    left[places] = 0\n"
        "    return places, gradient[places], left",
        # chosen without what was left
        "def compress(gradient, left, k):\n"
        "    places = gradient.abs().topk(k).indices\n"
        "    total = gradient + left\n"
        "    left = total.clone()\n"
        "    left[places] = 0\n"
        "    return places, total[places], left",
        # magnitudes are sent
        "def compress(gradient, left, k):\n"
        "    total = gradient + left\n"
        "    values, places = total.abs().topk(k)\n"
        "    left = total.clone()\n"
        "    left[places] = 0\n"
        "    return places, values, left",
        # the arguments change
        "def compress(gradient, left, k):\n"
        "    left += gradient\n"
        "    places = left.abs().topk(k).indices\n"
        "    values = left[places].clone()\n"
        "    left[places] = 0\n"
        "    return places, values, left",
    ],
    "oldest": [
        # the first age that is not borne
        """\
def oldest(rate, curvature):
    age = 0
    while rate * curvature < 2 * math.cos(math.pi * age / (2 * age + 1)):
        age += 1
    return age
""",
        # the bound is proportional to 1 / age
        """\
def oldest(rate, curvature):
    return -1 if rate * curvature >= 2 else int(2 / (rate * curvature)) - 1
""",
        # the formula for large ages
        """\
def oldest(rate, curvature):
    product = rate * curvature
    return -1 if product >= 2 else math.ceil((math.pi / product - 1) / 2) - 1
""",
        # on the bound is not below it
        """\
def oldest(rate, curvature):
    age = -1
    while rate * curvature <= 2 * math.cos(math.pi * (age + 1) / (2 * age + 3)):
        age += 1
    return age
""",
        # without the curvature
        """\
def oldest(rate, curvature):
    age = -1
    while rate < 2 * math.cos(math.pi * (age + 1) / (2 * age + 3)):
        age += 1
    return age
""",
    ],
}

ALSO_RIGHT = {
    "without_slowest": [
        """\
def without_slowest(pauses, spare):
    return np.sort(np.array(pauses), axis=0)[-1 - spare].sum()
""",
        # the slowest are taken out one by one
        """\
def without_slowest(pauses, spare):
    total = 0.0
    for step in zip(*pauses):
        left = list(step)
        for _ in range(spare):
            left.remove(max(left))
        total += max(left)
    return torch.tensor(total)
""",
    ],
    "homes": [
        "import hashlib\n\n\n"
        "def homes(key, servers, copies):\n"
        "    ranked = sorted(\n"
        "        servers, key=lambda s: hashlib.sha256(f'{s}/{key}'.encode()).digest()\n"
        "    )\n"
        "    return tuple(ranked[:copies])",
        # the smallest of other numbers
        """\
def homes(key, servers, copies):
    import random

    names = sorted(servers)
    return sorted(names, key=lambda s: random.Random(f"{s}|{key}").random())[:copies]
""",
    ],
    "compress": [
        "def compress(gradient, left, k):\n"
        "    total = (gradient + left).tolist()\n"
        "    places = sorted(range(len(total)), key=lambda i: -abs(total[i]))[:k]\n"
        "    values = torch.tensor([total[i] for i in places])\n"
        "    rest = [0.0 if i in places else x for i, x in enumerate(total)]\n"
        "    return torch.tensor(places), values, torch.tensor(rest)",
        # by argsort, and a list
        """\
def compress(gradient, left, k):
    total = gradient + left
    places = torch.argsort(total.abs(), descending=True)[:k]
    rest = total.index_fill(0, places, 0.0)
    return [places, total[places], rest]
""",
    ],
    "oldest": [
        # solved for the age: the bound is 2 sin(pi / (4 a + 2))
        """\
def oldest(rate, curvature):
    if rate * curvature >= 2:
        return -1
    return math.ceil((math.pi / math.asin(rate * curvature / 2) - 2) / 4) - 1
""",
        # a float
        """\
def oldest(rate, curvature):
    if rate * curvature >= 2:
        return -1.0
    return np.ceil((math.pi / np.arcsin(rate * curvature / 2) - 2) / 4 - 1e-9) - 1
""",
        """\
def oldest(rate, curvature):
    ages = np.arange(100_000)
    borne = ages[rate * curvature < 2 * np.cos(np.pi * ages / (2 * ages + 1))]
    return borne.max(initial=-1)
""",
    ],
}
