"""A CUDA graph played on a processor: a step's launches are kept and not done.

As on a GPU nothing is computed while a step is captured, what waits for a result is refused, and
replaying repeats the same launches on the same memory. Kernels run in Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime.interpreter import GridExecutor

from kernels.common.memory import lies_in
from kernels.common.trace import MAKE_ROOM, Watch

Launch = Callable[[], object]


def capture(step: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
    launches: list[Launch] = []
    with _kernels_kept(launches), _Kept(launches):
        result = step()

    def replay() -> None:
        for launch in launches:
            launch()

    return replay, result


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Inside, what Triton's interpreter does with torch is nobody's operation, as on a GPU."""
    run = GridExecutor.__call__

    def alone(self: Any, *args: Any, **kwargs: Any) -> None:
        with _disable_current_modes():
            run(self, *args, **kwargs)

    GridExecutor.__call__ = alone
    try:
        yield
    finally:
        GridExecutor.__call__ = run


@contextmanager
def _kernels_kept(launches: list[Launch]) -> Iterator[None]:
    run = GridExecutor.__call__

    def keep(self: Any, *args: Any, **kwargs: Any) -> None:
        launches.append(lambda: run(self, *args, **kwargs))

    GridExecutor.__call__ = keep
    try:
        yield
    finally:
        GridExecutor.__call__ = run


class _Kept(Watch):
    """Keeps operations of torch; views and empty tensors launch nothing and are made at once."""

    def __init__(self, launches: list[Launch]) -> None:
        super().__init__()
        self._launches = launches

    def do(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if func in MAKE_ROOM:
            return func(*args, **kwargs)
        if func._schema.is_mutable:
            self._launches.append(lambda: func(*args, **kwargs))
            return _written(func, args, kwargs)
        found = func(*args, **kwargs)  # for its shape; what it reads is not there yet
        if func.is_view and lies_in(found, args[0]):
            return found
        if isinstance(found, int | float):
            raise RuntimeError("operation not permitted when stream is capturing")
        self._launches.append(lambda: _copy(found, func(*args, **kwargs)))
        return found


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The argument that an operation writes to and returns."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            return args[place] if place < len(args) else kwargs[argument.name]
    raise AssertionError(f"{func} writes to nothing")


def _copy(to: Any, found: Any) -> None:
    pairs = [(to, found)] if isinstance(to, Tensor) else zip(to, found, strict=True)
    for target, each in pairs:
        target.copy_(each)
