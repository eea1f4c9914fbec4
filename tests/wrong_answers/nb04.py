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
    ],
    "prefetch": [
        # nothing ahead
        "def prefetch(items, depth=2):\n    yield from items",
        # all at once
        "def prefetch(items, depth=2):\n    yield from list(itertools.islice(items, 10**6))\n"
        "import itertools",
        # None means the end
        "def prefetch(items, depth=2):\n"
        "    ready = queue.Queue(maxsize=depth)\n"
        "    def load():\n"
        "        for item in items:\n"
        "            ready.put(item)\n"
        "        ready.put(None)\n"
        "    threading.Thread(target=load, daemon=True).start()\n"
        "    while (item := ready.get()) is not None:\n"
        "        yield item",
        # an error ends it silently
        "def prefetch(items, depth=2):\n"
        "    ready, end = queue.Queue(maxsize=depth), object()\n"
        "    def load():\n"
        "        try:\n"
        "            for item in items:\n"
        "                ready.put(item)\n"
        "        except Exception:\n"
        "            pass\n"
        "        ready.put(end)\n"
        "    threading.Thread(target=load, daemon=True).start()\n"
        "    while (item := ready.get()) is not end:\n"
        "        yield item",
        # the thread stays
        "def prefetch(items, depth=2):\n"
        "    ready = queue.Queue(maxsize=depth)\n"
        "    def load():\n"
        "        try:\n"
        "            for item in items:\n"
        "                ready.put(('item', item))\n"
        "            ready.put(('end', None))\n"
        "        except Exception as error:\n"
        "            ready.put(('error', error))\n"
        "    threading.Thread(target=load, daemon=True).start()\n"
        "    while True:\n"
        "        kind, thing = ready.get()\n"
        "        if kind == 'end':\n"
        "            return\n"
        "        if kind == 'error':\n"
        "            raise thing\n"
        "        yield thing",
        # no bound
        "def prefetch(items, depth=2):\n"
        "    ready, stop = queue.Queue(), threading.Event()\n"
        "    def load():\n"
        "        try:\n"
        "            for item in items:\n"
        "                if stop.is_set():\n"
        "                    return\n"
        "                ready.put(('item', item))\n"
        "            ready.put(('end', None))\n"
        "        except Exception as error:\n"
        "            ready.put(('error', error))\n"
        "    threading.Thread(target=load, daemon=True).start()\n"
        "    try:\n"
        "        while True:\n"
        "            kind, thing = ready.get()\n"
        "            if kind == 'end':\n"
        "                return\n"
        "            if kind == 'error':\n"
        "                raise thing\n"
        "            yield thing\n"
        "    finally:\n"
        "        stop.set()",
    ],
}
