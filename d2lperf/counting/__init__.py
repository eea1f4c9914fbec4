"""What a function does: the operations that torch dispatches, their FLOPs, and the bytes they move.

* `products`: FLOPs of each kind of product, convolution and attention.
* `classes`: which operations move data, add up or evaluate functions, and which nobody counts.
* `places`: bytes, and where they are: in a cache, in memory, on another device.
* `counter`: runs a function and notes its operations.
"""

from d2lperf.counting.counter import Operation, OperationCounter
from d2lperf.counting.places import NEW_BYTES

__all__ = ["NEW_BYTES", "Operation", "OperationCounter"]
