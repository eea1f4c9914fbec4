"""Wrong answers to the exercises of notebook 03: each must be found out, with a reason."""

WRONG = {
    "finished": [
        # the book's formula without its condition
        "def finished(t1, t2, t3):\n    return (t1[0] if len(t1) else 0) + sum(t2) + t3",
        # waits each time
        "def finished(t1, t2, t3):\n    return sum(t1) + sum(t2) + t3",
        # the slower side, nothing else
        "def finished(t1, t2, t3):\n    return max(sum(t1), sum(t2)) + t3",
        # right only where all tasks are equal
        "def finished(t1, t2, t3):\n"
        "    if not len(t1):\n"
        "        return t3\n"
        "    return max(t1[0] + sum(t2), sum(t1) + t2[-1]) + t3",
        # fetches each result
        "def finished(t1, t2, t3):\n"
        "    ordered = done = 0\n"
        "    for a, b in zip(t1, t2):\n"
        "        ordered += a\n"
        "        done = max(ordered, done) + b + t3\n"
        "    return done",
    ],
    "one_ahead": [
        # a wait for each batch
        "def train_overlapped(batches, step):\n"
        "    for batch in batches:\n"
        "        step(batch).wait()",
        # no wait before the end
        "def train_overlapped(batches, step):\n"
        "    for p in [step(batch) for batch in batches]:\n"
        "        p.wait()",
        # the last ones are forgotten
        "def train_overlapped(batches, step):\n"
        "    under_way = []\n"
        "    for batch in batches:\n"
        "        if len(under_way) == 2:\n"
        "            under_way.pop(0).wait()\n"
        "        under_way.append(step(batch))",
        # waits for the newest
        "def train_overlapped(batches, step):\n"
        "    under_way = []\n"
        "    for batch in batches:\n"
        "        under_way.append(step(batch))\n"
        "        if len(under_way) == 2:\n"
        "            under_way.pop().wait()\n"
        "    for p in under_way:\n"
        "        p.wait()",
        # three under way
        "def train_overlapped(batches, step):\n"
        "    under_way = []\n"
        "    for batch in batches:\n"
        "        under_way.append(step(batch))\n"
        "        if len(under_way) == 3:\n"
        "            under_way.pop(0).wait()\n"
        "    while under_way:\n"
        "        under_way.pop(0).wait()",
        # all batches in memory at once
        "def train_overlapped(batches, step):\n"
        "    under_way = []\n"
        "    for batch in list(batches):\n"
        "        if len(under_way) == 2:\n"
        "            under_way.pop(0).wait()\n"
        "        under_way.append(step(batch))\n"
        "    while under_way:\n"
        "        under_way.pop(0).wait()",
    ],
    "makespan": [
        # no limit at all
        "def makespan(cpu, gpu, d):\n"
        "    prepared = left = 0\n"
        "    for a, b in zip(cpu, gpu):\n"
        "        prepared += a\n"
        "        left = max(prepared, left) + b\n"
        "    return left",
        # always a wait
        "def makespan(cpu, gpu, d):\n    return sum(cpu) + sum(gpu)",
        # one too many under way
        "def makespan(cpu, gpu, d):\n"
        "    prepared, left = 0, []\n"
        "    for i, (a, b) in enumerate(zip(cpu, gpu)):\n"
        "        if i > d:\n"
        "            prepared = max(prepared, left[i - d - 1])\n"
        "        prepared += a\n"
        "        left.append(max(prepared, left[-1] if left else 0) + b)\n"
        "    return left[-1] if left else 0",
        # the GPU does two at a time
        "def makespan(cpu, gpu, d):\n"
        "    prepared, left = 0, []\n"
        "    for i, (a, b) in enumerate(zip(cpu, gpu)):\n"
        "        if i >= d:\n"
        "            prepared = max(prepared, left[i - d])\n"
        "        prepared += a\n"
        "        left.append(prepared + b)\n"
        "    return left[-1] if left else 0",
    ],
    "waits": [
        # the ordering is inside
        "def waits(engine, task, n, k, clock):\n"
        "    start = clock()\n"
        "    results = [engine.issue(task) for _ in range(n)]\n"
        "    results[k].wait()\n"
        "    middle = clock()\n"
        "    engine.synchronize()\n"
        "    return middle - start, clock() - middle",
        # everything first
        "def waits(engine, task, n, k, clock):\n"
        "    results = [engine.issue(task) for _ in range(n)]\n"
        "    start = clock()\n"
        "    engine.synchronize()\n"
        "    middle = clock()\n"
        "    results[k].wait()\n"
        "    return clock() - middle, middle - start",
        # the second wait from the start
        "def waits(engine, task, n, k, clock):\n"
        "    results = [engine.issue(task) for _ in range(n)]\n"
        "    start = clock()\n"
        "    results[k].wait()\n"
        "    one = clock() - start\n"
        "    engine.synchronize()\n"
        "    return one, clock() - start",
        # counted from 1
        "def waits(engine, task, n, k, clock):\n"
        "    results = [engine.issue(task) for _ in range(n)]\n"
        "    start = clock()\n"
        "    results[k - 1].wait()\n"
        "    middle = clock()\n"
        "    engine.synchronize()\n"
        "    return middle - start, clock() - middle",
        # no engine
        "def waits(engine, task, n, k, clock):\n"
        "    start = clock()\n"
        "    for _ in range(n):\n"
        "        task()\n"
        "    return clock() - start, 0.0",
    ],
    "share_before": [
        # pays for others
        "def share_before(order, wait, clock):\n"
        "    start = clock()\n"
        "    order()\n"
        "    ordered = clock()\n"
        "    wait()\n"
        "    done = clock()\n"
        "    return (ordered - start) / (done - start) if done > start else 1.0",
        # the other share
        "def share_before(order, wait, clock):\n"
        "    wait()\n"
        "    start = clock()\n"
        "    order()\n"
        "    ordered = clock()\n"
        "    wait()\n"
        "    done = clock()\n"
        "    return (done - ordered) / (done - start) if done > start else 1.0",
        # nobody waits
        "def share_before(order, wait, clock):\n    start = clock()\n    order()\n    return 1.0",
        # no time passed
        (
            "ZeroDivisionError",
            "def share_before(order, wait, clock):\n"
            "    wait()\n"
            "    start = clock()\n"
            "    order()\n"
            "    ordered = clock()\n"
            "    wait()\n"
            "    return (ordered - start) / (clock() - start)",
        ),
        # the first order to warm up
        "def share_before(order, wait, clock):\n"
        "    order()\n"
        "    wait()\n"
        "    start = clock()\n"
        "    order()\n"
        "    ordered = clock()\n"
        "    wait()\n"
        "    done = clock()\n"
        "    return (ordered - start) / (done - start) if done > start else 1.0",
        # one reading too few
        """\
def share_before(order, wait, clock):
    wait()
    start = clock()
    order()
    wait()
    done = clock()
    return (done - start) / max(done, 1e-9)
""",
    ],
    "never_asks": [
        # asks for each loss
        "def best_and_mean(losses):\n"
        "    values = [v for v in (loss.item() for loss in losses) if v == v]\n"
        "    return min(values), sum(values) / len(values)",
        # an if asks as well
        "def best_and_mean(losses):\n"
        "    kept = [loss for loss in losses if not torch.isnan(loss)]\n"
        "    kept = torch.stack(kept)\n"
        "    best, mean = torch.stack([kept.min(), kept.mean()]).tolist()\n"
        "    return best, mean",
        # so does a mask
        "def best_and_mean(losses):\n"
        "    losses = torch.stack(list(losses))\n"
        "    kept = losses[~losses.isnan()]\n"
        "    best, mean = torch.stack([kept.min(), kept.mean()]).tolist()\n"
        "    return best, mean",
        # places by where and argwhere: how many there are is a question, then come two numbers
        "def best_and_mean(losses):\n"
        "    losses = torch.stack(list(losses))\n"
        "    kept = losses[torch.where(~losses.isnan())[0]]\n"
        "    best, mean = torch.stack([kept.min(), kept.mean()]).tolist()\n"
        "    return best, mean",
        "def best_and_mean(losses):\n"
        "    losses = torch.stack(list(losses))\n"
        "    kept = losses[torch.argwhere(~losses.isnan()).flatten()]\n"
        "    best, mean = torch.stack([kept.min(), kept.mean()]).tolist()\n"
        "    return best, mean",
        # a place on the device is read, too
        "def best_and_mean(losses):\n"
        "    losses = torch.stack(list(losses))\n"
        "    best = losses[torch.where(losses.isnan(), torch.inf, losses).argmin()]\n"
        "    best, mean = torch.stack([best, losses.nanmean()]).tolist()\n"
        "    return best, mean",
        # two questions
        "def best_and_mean(losses):\n"
        "    losses = torch.stack(list(losses))\n"
        "    best = torch.where(torch.isnan(losses), torch.inf, losses).min()\n"
        "    return best.item(), losses.nanmean().item()",
        # NaN spoils it
        "def best_and_mean(losses):\n"
        "    losses = torch.stack(list(losses))\n"
        "    best, mean = torch.stack([losses.min(), losses.mean()]).tolist()\n"
        "    return best, mean",
        # NaN counts as 0 in the mean
        "def best_and_mean(losses):\n"
        "    losses = torch.stack(list(losses))\n"
        "    best = torch.where(torch.isnan(losses), torch.inf, losses).min()\n"
        "    best, mean = torch.stack([best, losses.nansum() / len(losses)]).tolist()\n"
        "    return best, mean",
        # still on the device
        "def best_and_mean(losses):\n"
        "    losses = torch.stack(list(losses))\n"
        "    best = torch.where(torch.isnan(losses), torch.inf, losses).min()\n"
        "    return best, losses.nanmean()",
        # works on a CPU only
        (
            "TypeError",
            "def best_and_mean(losses):\n"
            "    losses = torch.stack(list(losses)).numpy()\n"
            "    return float(np.nanmin(losses)), float(np.nanmean(losses))",
        ),
        # torch.tensor asks each loss for its number
        """\
def best_and_mean(losses):
    losses = torch.tensor(list(losses))
    best = torch.where(torch.isnan(losses), torch.inf, losses).min()
    best, mean = torch.stack([best, losses.nanmean()]).tolist()
    return best, mean
""",
    ],
    "two_buffers": [
        # no events
        "def two_buffers(copying, computing, hosts, buffers, copy, compute):\n"
        "    results = []\n"
        "    for i, host in enumerate(hosts):\n"
        "        copying.issue(copy, buffers[i % 2], host)\n"
        "        results.append(computing.issue(compute, buffers[i % 2]))\n"
        "    return results",
        # only one of the two dangers
        "def two_buffers(copying, computing, hosts, buffers, copy, compute):\n"
        "    results = []\n"
        "    for i, host in enumerate(hosts):\n"
        "        copying.issue(copy, buffers[i % 2], host)\n"
        "        computing.wait_event(copying.record_event())\n"
        "        results.append(computing.issue(compute, buffers[i % 2]))\n"
        "    return results",
        # nothing overlaps
        "def two_buffers(copying, computing, hosts, buffers, copy, compute):\n"
        "    results, free = [], None\n"
        "    for i, host in enumerate(hosts):\n"
        "        if free is not None:\n"
        "            copying.wait_event(free)\n"
        "        copying.issue(copy, buffers[i % 2], host)\n"
        "        computing.wait_event(copying.record_event())\n"
        "        results.append(computing.issue(compute, buffers[i % 2]))\n"
        "        free = computing.record_event()\n"
        "    return results",
        # the host waits
        "def two_buffers(copying, computing, hosts, buffers, copy, compute):\n"
        "    results = []\n"
        "    for i, host in enumerate(hosts):\n"
        "        copying.issue(copy, buffers[i % 2], host)\n"
        "        copying.synchronize()\n"
        "        results.append(computing.issue(compute, buffers[i % 2]))\n"
        "    return results",
        # the event comes before the copy
        "def two_buffers(copying, computing, hosts, buffers, copy, compute):\n"
        "    results, free = [], []\n"
        "    for i, host in enumerate(hosts):\n"
        "        if i >= 2:\n"
        "            copying.wait_event(free[i - 2])\n"
        "        arrived = copying.record_event()\n"
        "        copying.issue(copy, buffers[i % 2], host)\n"
        "        computing.wait_event(arrived)\n"
        "        results.append(computing.issue(compute, buffers[i % 2]))\n"
        "        free.append(computing.record_event())\n"
        "    return results",
        # nothing comes back
        """\
def two_buffers(copying, computing, hosts, buffers, copy, compute):
    free = []
    for i, host in enumerate(hosts):
        if i >= 2:
            copying.wait_event(free[i - 2])
        copying.issue(copy, buffers[i % 2], host)
        computing.wait_event(copying.record_event())
        computing.issue(compute, buffers[i % 2])
        free.append(computing.record_event())
""",
        # one stream for both
        "def two_buffers(copying, computing, hosts, buffers, copy, compute):\n"
        "    results = []\n"
        "    for i, host in enumerate(hosts):\n"
        "        computing.issue(copy, buffers[i % 2], host)\n"
        "        results.append(computing.issue(compute, buffers[i % 2]))\n"
        "    return results",
    ],
}

ALSO_RIGHT = {
    "finished": [
        # the slowest of all ways through
        """\
def finished(t1, t2, t3):
    ways = [sum(t1[: i + 1]) + sum(t2[i:]) for i in range(len(t1))]
    return t3 + max(ways, default=0)
""",
        # from the end, with NumPy
        """\
def finished(t1, t2, t3):
    left = 0
    for i in reversed(range(len(t1))):
        left = max(left, np.sum(t2[i:])) + t1[i]
    return np.float64(left + t3)
""",
    ],
    "one_ahead": [
        # the one before is kept
        """\
def train_overlapped(batches, step):
    before = None
    for batch in batches:
        now = step(batch)
        if before is not None:
            before.wait()
        before = now
    if before is not None:
        before.wait()
""",
        """\
def train_overlapped(batches, step):
    from collections import deque

    promises = deque()
    for promise in map(step, batches):
        promises.append(promise)
        if len(promises) > 1:
            promises.popleft().wait()
    while promises:
        promises.popleft().wait()
""",
    ],
    "makespan": [
        # padded with zeros
        """\
def makespan(cpu, gpu, d):
    left, prepared = [0.0] * d, 0.0
    for a, b in zip(cpu, gpu):
        prepared = max(prepared, left[-d]) + a
        left.append(max(prepared, left[-1]) + b)
    return left[-1]
""",
        # each batch asks for the ones before
        """\
def makespan(cpu, gpu, d):
    import functools

    @functools.cache
    def prepared(i):
        return 0 if i < 0 else max(prepared(i - 1), left(i - d)) + cpu[i]

    @functools.cache
    def left(i):
        return 0 if i < 0 else max(prepared(i), left(i - 1)) + gpu[i]

    return torch.tensor(float(left(len(cpu) - 1)))
""",
    ],
    "waits": [
        # a list
        """\
def waits(engine, task, n, k, clock):
    promises = [engine.issue(task) for _ in range(n)]
    times = []
    for wait in (promises[k].wait, engine.synchronize):
        start = clock()
        wait()
        times.append(clock() - start)
    return times
""",
        # differences of an array
        """\
def waits(engine, task, n, k, clock):
    promises = []
    while len(promises) < n:
        promises.append(engine.issue(task))
    readings = [clock()]
    promises[k].wait()
    readings.append(clock())
    engine.synchronize()
    return np.diff([*readings, clock()])
""",
    ],
    "share_before": [
        """\
def share_before(order, wait, clock):
    wait()
    readings = [clock()]
    for call in (order, wait):
        call()
        readings.append(clock())
    ordering, waiting = np.diff(readings)
    return 1.0 if ordering + waiting == 0 else ordering / (ordering + waiting)
""",
        """\
def share_before(order, wait, clock):
    def seconds(call):
        start = clock()
        call()
        return clock() - start

    wait()
    ordering, waiting = seconds(order), seconds(wait)
    try:
        return torch.tensor(ordering / (ordering + waiting))
    except ZeroDivisionError:
        return 1
""",
    ],
    "never_asks": [
        # three tensors instead of a list
        """\
def best_and_mean(losses):
    best = total = count = None
    for loss in losses:
        number = ~torch.isnan(loss)
        low = torch.where(number, loss, torch.inf)
        best = low if best is None else torch.minimum(best, low)
        new = torch.where(number, loss, 0.0)
        total = new if total is None else total + new
        count = number * 1.0 if count is None else count + number
    best, mean = torch.stack([best, total / count]).tolist()
    return [best, mean]
""",
        # the copy is the one question, NumPy does the rest
        """\
def best_and_mean(losses):
    losses = torch.stack(tuple(losses)).cpu().numpy()
    return np.nanmin(losses), np.nanmean(losses)
""",
        # so is a forced numpy()
        """\
def best_and_mean(losses):
    losses = torch.stack(list(losses)).numpy(force=True)
    return float(np.nanmin(losses)), float(np.nanmean(losses))
""",
        # one number for all places of a mask: a masked fill, which does not ask
        """\
def best_and_mean(losses):
    losses = torch.stack(list(losses))
    mean = losses.nanmean()
    losses[torch.isnan(losses)] = torch.inf
    best, mean = torch.stack([losses.min(), mean]).tolist()
    return best, mean
""",
    ],
    "two_buffers": [
        # events of the buffers
        """\
def two_buffers(copying, computing, hosts, buffers, copy, compute):
    promises, free = [], [None, None]
    for i, host in enumerate(hosts):
        if free[i % 2] is not None:
            copying.wait_event(free[i % 2])
        copying.issue(copy, buffers[i % 2], host)
        arrived = copying.record_event()
        computing.wait_event(arrived)
        promises.append(computing.issue(compute, buffers[i % 2]))
        free[i % 2] = computing.record_event()
    return tuple(promises)
""",
        # a generator hands out the buffers
        """\
def two_buffers(copying, computing, hosts, buffers, copy, compute):
    import itertools

    def one(buffer, host, free):
        if free:
            copying.wait_event(free.pop(0))
        copying.issue(copy, buffer, host)
        computing.wait_event(copying.record_event())
        return computing.issue(compute, buffer)

    events, results = {0: [], 1: []}, []
    for (i, buffer), host in zip(itertools.cycle(enumerate(buffers)), hosts):
        results.append(one(buffer, host, events[i]))
        events[i].append(computing.record_event())
    return results
""",
    ],
}
