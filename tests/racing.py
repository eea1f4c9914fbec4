"""Threads that work at the same time."""

import threading


def in_threads(*works):
    """Call each in a thread of its own, "worker 0", "worker 1", ..., and wait for all of them."""
    threads = [threading.Thread(target=w, name=f"worker {i}") for i, w in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
