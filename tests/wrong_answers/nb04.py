"""Wrong answers to the exercises of notebook 04: each must be found out, with a reason."""

WRONG = {
    "most_at_once": [
        # lanes, busy at the same time or not
        "def most_at_once(timeline):\n    return len(timeline.lanes)",
        # counts what lies inside another span
        "def most_at_once(timeline):\n"
        "    changes = sorted((t, c) for s in timeline.spans\n"
        "                     for t, c in [(s.start_s, 1), (s.end_s, -1)])\n"
        "    now = most = 0\n"
        "    for _, change in changes:\n"
        "        now += change\n"
        "        most = max(most, now)\n"
        "    return most",
        # one that begins as another ends is counted with it
        "def most_at_once(timeline):\n"
        "    spans = [s for s in timeline.spans if s.depth == 0]\n"
        "    return max(sum(o.start_s <= s.start_s <= o.end_s for o in spans) for s in spans)",
        # neighbours in the list only
        "def most_at_once(timeline):\n"
        "    spans = [s for s in timeline.spans if s.depth == 0]\n"
        "    return 1 + any(b.start_s < a.end_s for a, b in zip(spans, spans[1:]))",
        # 0.1 + 0.2 ends after 0.3
        """\
def most_at_once(timeline):
    changes = []
    for span in timeline.spans:
        if span.depth == 0:
            changes += [(span.start_s, 1), (span.end_s, -1)]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most
""",
    ],
    "in_groups": [
        # a task for each
        "def in_groups(operations, pool, size):\n"
        "    started = [pool.submit(operation) for operation in operations]\n"
        "    return [future.result() for future in started]",
        # waits in between
        "def in_groups(operations, pool, size):\n"
        "    results = []\n"
        "    for k in range(0, len(operations), size):\n"
        "        group = operations[k : k + size]\n"
        "        results += pool.submit(lambda: [f() for f in group]).result()\n"
        "    return results",
        # the rest is lost
        "def in_groups(operations, pool, size):\n"
        "    def group(k):\n"
        "        return [f() for f in operations[k * size : (k + 1) * size]]\n"
        "    started = [pool.submit(group, k) for k in range(len(operations) // size)]\n"
        "    return [r for future in started for r in future.result()]",
        # in the order in which they end
        "def in_groups(operations, pool, size):\n"
        "    from concurrent.futures import as_completed\n"
        "    def group(k):\n"
        "        return [f() for f in operations[k : k + size]]\n"
        "    started = [pool.submit(group, k) for k in range(0, len(operations), size)]\n"
        "    return [r for future in as_completed(started) for r in future.result()]",
        # no pool at all
        "def in_groups(operations, pool, size):\n    return [f() for f in operations]",
    ],
    "pipeline": [
        # one batch at a time
        "def pipeline(n, prepare, move, compute):\n"
        "    tasks, last = {}, ()\n"
        "    for i in range(n):\n"
        "        tasks[f'prepare {i}'] = Task(prepare, last, 'CPU')\n"
        "        tasks[f'move {i}'] = Task(move, (f'prepare {i}',), 'bus')\n"
        "        tasks[f'compute {i}'] = Task(compute, (f'move {i}',), 'GPU')\n"
        "        last = (f'compute {i}',)\n"
        "    return tasks",
        # nobody waits for anything
        "def pipeline(n, prepare, move, compute):\n"
        "    costs = {'CPU': prepare, 'bus': move, 'GPU': compute}\n"
        "    return {f'{lane} {i}': Task(cost, (), lane)\n"
        "            for i in range(n) for lane, cost in costs.items()}",
        # copies wait until all is prepared
        "def pipeline(n, prepare, move, compute):\n"
        "    tasks = {f'p{i}': Task(prepare, (), 'CPU') for i in range(n)}\n"
        "    first = tuple(tasks)\n"
        "    tasks |= {f'm{i}': Task(move, first, 'bus') for i in range(n)}\n"
        "    return tasks | {f'c{i}': Task(compute, (f'm{i}',), 'GPU') for i in range(n)}",
        # computes before it is moved
        "def pipeline(n, prepare, move, compute):\n"
        "    tasks = {}\n"
        "    for i in range(n):\n"
        "        tasks[f'p{i}'] = Task(prepare, (), 'CPU')\n"
        "        tasks[f'm{i}'] = Task(move, (f'p{i}',), 'bus')\n"
        "        tasks[f'c{i}'] = Task(compute, (f'p{i}',), 'GPU')\n"
        "    return tasks",
        # the costs in another order
        """\
def pipeline(n, prepare, move, compute):
    tasks = {}
    for i in range(n):
        tasks[f"p{i}"] = Task(compute, (), "CPU")
        tasks[f"m{i}"] = Task(move, (f"p{i}",), "bus")
        tasks[f"c{i}"] = Task(prepare, (f"m{i}",), "GPU")
    return tasks
""",
    ],
    "waited_for": [
        # not to the end of the timeline
        "def waited_for(timeline, lane):\n"
        "    from d2lperf.timeline import gaps\n"
        "    mine = [(s.start_s, s.end_s) for s in timeline.spans if s.lane == lane]\n"
        "    idle = gaps(mine, timeline.window_s[0], max(e for _, e in mine)).tolist()\n"
        "    a, b = max(idle, key=lambda g: g[1] - g[0], default=(0, 0))\n"
        "    others = [s for s in timeline.spans if s.lane != lane]\n"
        "    fits = lambda s: min(s.end_s, b) - max(s.start_s, a)\n"
        "    return a, b, max(others, key=fits).name",
        # the first gap, not the longest
        "def waited_for(timeline, lane):\n"
        "    from d2lperf.timeline import gaps\n"
        "    mine = [(s.start_s, s.end_s) for s in timeline.spans if s.lane == lane]\n"
        "    a, b = gaps(mine, *timeline.window_s).tolist()[0]\n"
        "    others = [s for s in timeline.spans if s.lane != lane]\n"
        "    return a, b, max(others, key=lambda s: min(s.end_s, b) - max(s.start_s, a)).name",
        # the longest span of all, whenever it ran
        "def waited_for(timeline, lane):\n"
        "    from d2lperf.timeline import gaps\n"
        "    mine = [(s.start_s, s.end_s) for s in timeline.spans if s.lane == lane]\n"
        "    a, b = max(gaps(mine, *timeline.window_s).tolist(), key=lambda g: g[1] - g[0])\n"
        "    others = [s for s in timeline.spans if s.lane != lane]\n"
        "    return a, b, max(others, key=lambda s: s.duration_s).name",
        # between spans only, not before the first
        "def waited_for(timeline, lane):\n"
        "    mine = [s for s in timeline.spans if s.lane == lane]\n"
        "    a, b = max(((s.end_s, t.start_s) for s, t in zip(mine, mine[1:])),\n"
        "               key=lambda g: g[1] - g[0])\n"
        "    others = [s for s in timeline.spans if s.lane != lane]\n"
        "    return a, b, max(others, key=lambda s: min(s.end_s, b) - max(s.start_s, a)).name",
        # only what lies wholly inside
        "def waited_for(timeline, lane):\n"
        "    from d2lperf.timeline import gaps\n"
        "    mine = [(s.start_s, s.end_s) for s in timeline.spans if s.lane == lane]\n"
        "    a, b = max(gaps(mine, *timeline.window_s).tolist(), key=lambda g: g[1] - g[0])\n"
        "    inside = [s for s in timeline.spans\n"
        "              if s.lane != lane and a <= s.start_s and s.end_s <= b]\n"
        "    return a, b, max(inside, key=lambda s: s.duration_s).name",
        # a window from 0
        """\
def waited_for(timeline, lane):
    from d2lperf.timeline import gaps
    mine = [(s.start_s, s.end_s) for s in timeline.spans if s.lane == lane]
    idle = gaps(mine, 0.0, timeline.window_s[1]).tolist()
    a, b = max(idle, key=lambda g: g[1] - g[0])
    others = [s for s in timeline.spans if s.lane != lane]
    return a, b, max(others, key=lambda s: min(s.end_s, b) - max(s.start_s, a)).name
""",
    ],
    "run_graph": [
        # one after the other
        "def run_graph(work, needs, workers):\n"
        "    results = {}\n"
        "    for name in work:\n"
        "        results[name] = work[name](*(results[n] for n in needs[name]))\n"
        "    return results",
        # a task that waits holds a thread
        "def run_graph(work, needs, workers):\n"
        "    futures = {}\n"
        "    def task(name):\n"
        "        return work[name](*(futures[n].result() for n in needs[name]))\n"
        "    with ThreadPoolExecutor(workers) as pool:\n"
        "        for name in work:\n"
        "            futures[name] = pool.submit(task, name)\n"
        "    return {name: future.result() for name, future in futures.items()}",
        # a thread for each task, whatever was asked
        "def run_graph(work, needs, workers):\n"
        "    futures = {}\n"
        "    def task(name):\n"
        "        return work[name](*(futures[n].result() for n in needs[name]))\n"
        "    with ThreadPoolExecutor(len(work)) as pool:\n"
        "        for name in work:\n"
        "            futures[name] = pool.submit(task, name)\n"
        "    return {name: future.result() for name, future in futures.items()}",
        # inputs in another order
        "def run_graph(work, needs, workers):\n"
        "    results = {}\n"
        "    for name in work:\n"
        "        results[name] = work[name](*(results[n] for n in reversed(needs[name])))\n"
        "    return results",
        # an error is swallowed
        "def run_graph(work, needs, workers):\n"
        "    import concurrent.futures as futures\n"
        "    results, running, submitted = {}, {}, set()\n"
        "    with ThreadPoolExecutor(workers) as pool:\n"
        "        while len(results) < len(work):\n"
        "            for name in work:\n"
        "                if name not in submitted and all(n in results for n in needs[name]):\n"
        "                    inputs = [results[n] for n in needs[name]]\n"
        "                    running[pool.submit(work[name], *inputs)] = name\n"
        "                    submitted.add(name)\n"
        "            done, _ = futures.wait(running, return_when='FIRST_COMPLETED')\n"
        "            for f in done:\n"
        "                results[running.pop(f)] = None if f.exception() else f.result()\n"
        "    return results",
        # submits a level and waits for all of it
        """\
def run_graph(work, needs, workers):
    results = {}
    with ThreadPoolExecutor(workers) as pool:
        while len(results) < len(work):
            level = [n for n in work
                     if n not in results and all(d in results for d in needs[n])]
            running = {n: pool.submit(work[n], *(results[d] for d in needs[n])) for n in level}
            results |= {n: future.result() for n, future in running.items()}
    return results
""",
    ],
    "diagnose": [
        # efficiency is not the serial fraction
        "def diagnose(times):\n"
        "    return {p: 1 - times[1] / t / p for p, t in times.items() if p > 1}, 'serial part'",
        # never doubts the clock
        "def diagnose(times):\n"
        "    f = {p: (t / times[1] - 1 / p) / (1 - 1 / p) for p, t in sorted(times.items())"
        " if p > 1}\n"
        "    growing = f[max(f)] > f[min(f)] + 0.02\n"
        "    return f, 'overhead' if growing else 'serial part'",
        # trusts the order of the keys
        "def diagnose(times):\n"
        "    f = {p: (t / times[1] - 1 / p) / (1 - 1 / p) for p, t in times.items() if p > 1}\n"
        "    if any(times[1] / t > 1.05 * p for p, t in times.items()):\n"
        "        return f, 'impossible'\n"
        "    first, last = list(f.values())[0], list(f.values())[-1]\n"
        "    return f, 'overhead' if last > first + 0.02 else 'serial part'",
        # looks for the impossible at the largest number of threads only
        "def diagnose(times):\n"
        "    f = {p: (t / times[1] - 1 / p) / (1 - 1 / p) for p, t in sorted(times.items())"
        " if p > 1}\n"
        "    p = max(f)\n"
        "    if times[1] / times[p] > 1.05 * p:\n"
        "        return f, 'impossible'\n"
        "    return f, 'overhead' if f[p] > f[min(f)] + 0.02 else 'serial part'",
        # the largest minus the smallest
        """\
def diagnose(times):
    f = {p: (t / times[1] - 1 / p) / (1 - 1 / p) for p, t in times.items() if p > 1}
    if any(times[1] / t > 1.05 * p for p, t in times.items()):
        return f, 'impossible'
    growing = max(f.values()) - min(f.values()) > 0.02
    return f, 'overhead' if growing else 'serial part'
""",
    ],
}

ALSO_RIGHT = {
    "most_at_once": [
        # at each start, which lanes are busy
        """\
def most_at_once(timeline):
    spans = [s for s in timeline.spans if round(s.duration_s, 9) > 0]

    def busy(moment):
        return {s.lane for s in spans
                if round(s.start_s, 9) <= moment < round(s.end_s, 9)}

    return max(len(busy(round(s.start_s, 9))) for s in spans)
""",
        # sorted by whole nanoseconds
        """\
def most_at_once(timeline):
    changes = []
    for s in timeline.spans:
        if s.depth == 0:
            changes += [(round(1e9 * s.start_s), 1), (round(1e9 * s.end_s), -1)]
    return np.cumsum([c for _, c in sorted(changes)]).max()
""",
    ],
    "in_groups": [
        # by map
        """\
def in_groups(operations, pool, size):
    groups = [operations[i : i + size] for i in range(0, len(operations), size)]
    results = list(pool.map(lambda group: [f() for f in group], groups))
    return tuple(result for group in results for result in group)
""",
        # each group writes its places
        """\
def in_groups(operations, pool, size):
    results = [None] * len(operations)

    def group(first):
        for i in range(first, min(first + size, len(operations))):
            results[i] = operations[i]()

    for future in [pool.submit(group, i) for i in range(0, len(operations), size)]:
        future.result()
    return results
""",
    ],
    "pipeline": [
        # lane by lane
        """\
def pipeline(n, prepare, move, compute):
    tasks = {("CPU", i): Task(prepare, lane="CPU") for i in range(n)}
    tasks |= {("bus", i): Task(move, (("CPU", i),), "bus") for i in range(n)}
    return tasks | {("GPU", i): Task(compute, (("bus", i),), "GPU") for i in range(n)}
""",
        # with the order of each lane, which costs nothing
        """\
def pipeline(n, prepare, move, compute):
    tasks = {}
    for i in range(n):
        before = None
        for lane, cost in (("CPU", prepare), ("bus", move), ("GPU", compute)):
            needs = [before] if before else []
            if i:
                needs.append(f"{lane} {i - 1}")
            before = f"{lane} {i}"
            tasks[before] = Task(cost, tuple(needs), lane)
    return tasks
""",
    ],
    "waited_for": [
        # a list, the gaps by hand
        """\
def waited_for(timeline, lane):
    start, end = timeline.window_s
    mine = sorted((s.start_s, s.end_s) for s in timeline.spans if s.lane == lane)
    free, idle = start, []
    for begin, stop in [*mine, (end, end)]:
        idle.append((free, begin))
        free = max(free, stop)
    a, b = max(idle, key=lambda gap: gap[1] - gap[0])
    others = [s for s in timeline.spans if s.lane != lane]
    return [a, b, max(others, key=lambda s: min(s.end_s, b) - max(s.start_s, a)).name]
""",
        # with NumPy, and the shares by name
        """\
def waited_for(timeline, lane):
    from d2lperf.timeline import gaps
    mine = [(s.start_s, s.end_s) for s in timeline.spans if s.lane == lane]
    idle = np.array(gaps(mine, *timeline.window_s))
    start, end = idle[np.diff(idle).argmax()]
    shared = {}
    for s in timeline.spans:
        if s.lane != lane:
            share = min(s.end_s, end) - max(s.start_s, start)
            shared[s.name] = max(shared.get(s.name, 0), share)
    return start, end, max(shared, key=shared.get)
""",
    ],
    "run_graph": [
        # workers that wait for a condition
        """\
def run_graph(work, needs, workers):
    results, taken, errors = {}, set(), []
    changed = threading.Condition()

    def ready():
        return [n for n in work if n not in taken and all(d in results for d in needs[n])]

    def worker():
        while True:
            with changed:
                changed.wait_for(lambda: ready() or errors or len(taken) == len(work))
                if errors or len(taken) == len(work):
                    return
                name = ready()[0]
                taken.add(name)
                inputs = [results[d] for d in needs[name]]
            try:
                result = work[name](*inputs)
            except Exception as error:
                with changed:
                    errors.append(error)
                    changed.notify_all()
                return
            with changed:
                results[name] = result
                changed.notify_all()

    threads = [threading.Thread(target=worker) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
""",
        # what is done comes through a queue
        """\
def run_graph(work, needs, workers):
    missing = {name: set(needs[name]) for name in work}
    results, done = {}, queue.SimpleQueue()
    with ThreadPoolExecutor(workers) as pool:
        def start(name):
            future = pool.submit(work[name], *map(results.get, needs[name]))
            future.add_done_callback(lambda f: done.put((name, f)))

        for name in [name for name in work if not missing[name]]:
            start(name)
        while len(results) < len(work):
            name, future = done.get()
            results[name] = future.result()
            for other, names in missing.items():
                if name in names:
                    names.remove(name)
                    if not names:
                        start(other)
    return results
""",
    ],
    "diagnose": [
        # a list, with speed-ups first
        """\
def diagnose(times):
    counts = sorted(p for p in times if p > 1)
    gains = np.array([times[1] / times[p] for p in counts])
    p = np.array(counts)
    f = (1 / gains - 1 / p) / (1 - 1 / p)
    word = "overhead" if f[-1] - f[0] > 0.02 else "serial part"
    if (gains > 1.05 * p).any():
        word = "impossible"
    return [dict(zip(counts, f)), word]
""",
        # from the times alone
        """\
def diagnose(times):
    fractions = {}
    for p in times:
        if p != 1:
            fractions[p] = (p * times[p] / times[1] - 1) / (p - 1)
    if min(p * times[p] / times[1] for p in fractions) < 1 / 1.05:
        return fractions, "impossible"
    if fractions[max(fractions)] - fractions[min(fractions)] > 0.02:
        return fractions, "overhead"
    return fractions, "serial part"
""",
    ],
}
