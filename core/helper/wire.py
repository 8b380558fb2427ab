"""What passes between a worker and its helper: fields as JSON, and bytes behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Fields = dict[str, Any]
Task = Callable[[Fields, bytes], tuple[Fields, bytes]]
"""Takes the fields and the bytes of a request; gives those of its answer. May raise anything."""

# The largest file that is handed over: a picture of 64 million pixels with nothing compressed.
MAX_TASK_BYTES = 320 * 2**20
