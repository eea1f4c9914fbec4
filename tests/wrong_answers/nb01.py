"""Wrong answers to the exercises of notebook 01: each must be found out, with a reason."""

WRONG = {
    "time_job": [
        # as given: nobody waits
        "def time_job(device, job_s, n):\n"
        "    start = device.clock()\n"
        "    for _ in range(n):\n"
        "        device.launch(job_s)\n"
        "    return (device.clock() - start) / n",
        # waits at the end only
        "def time_job(device, job_s, n):\n"
        "    start = device.clock()\n"
        "    for _ in range(n):\n"
        "        device.launch(job_s)\n"
        "    device.synchronize()\n"
        "    return (device.clock() - start) / n",
        # waits after each job
        "def time_job(device, job_s, n):\n"
        "    device.synchronize()\n"
        "    start = device.clock()\n"
        "    for _ in range(n):\n"
        "        device.launch(job_s)\n"
        "        device.synchronize()\n"
        "    return (device.clock() - start) / n",
        # does not measure at all
        "def time_job(device, job_s, n):\n    return job_s",
        # launches, but returns what was asked for
        """\
def time_job(device, job_s, n):
    for _ in range(n):
        device.launch(job_s)
    device.synchronize()
    return job_s
""",
    ],
}

ALSO_RIGHT = {
    "time_job": [
        # a helper that waits and reads
        """\
def time_job(device, job_s, n):
    def idle_at():
        device.synchronize()
        return device.clock()

    start = idle_at()
    for job in [job_s] * n:
        device.launch(job)
    return (idle_at() - start) / n
""",
        # NumPy's difference
        """\
def time_job(device, job_s, n):
    device.synchronize()
    readings = [device.clock()]
    while n > device.launched:
        device.launch(job_s)
    device.synchronize()
    readings.append(device.clock())
    return np.diff(readings)[0] / n
""",
    ],
}
