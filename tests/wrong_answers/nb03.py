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
        # one stream for both
        "def two_buffers(copying, computing, hosts, buffers, copy, compute):\n"
        "    results = []\n"
        "    for i, host in enumerate(hosts):\n"
        "        computing.issue(copy, buffers[i % 2], host)\n"
        "        results.append(computing.issue(compute, buffers[i % 2]))\n"
        "    return results",
    ],
}
