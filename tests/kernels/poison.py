"""Memory filled with NaN where an op allocates without writing: what is not written shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.utils._python_dispatch import TorchDispatchMode


class _FillEmpty(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        fresh = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided")
        if func.__name__.split(".")[0] in fresh and result.is_floating_point():
            result.fill_(float("nan"))
        return result


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Inside, every uninitialised floating-point tensor starts as NaN."""
    with _FillEmpty():  # type: ignore[no-untyped-call]
        yield
