"""Traces of a GPU's steps: one CUDA graph of everything a step launches.

A graph repeats launches with equal arguments, so token numbers are on the device, for the row store
and attention. A step that reads stored rows in another way is not captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernels.common.memory import lies_in
from kernels.common.trace import MAKE_ROOM, NotCapturableError, Tracer, Watch

CaptureLaunches = Callable[[Callable[[], Tensor]], tuple[Callable[[], object], Tensor]]
"""Keeps what a step would launch, without doing it: what does it, and where the result will be."""

MOST_TOKENS = 8  # of a step

# Operations allowed on stored rows, apart from views of them.
_ALLOWED = MAKE_ROOM | {torch.ops.aten.index_copy_.default}


class Stored(NamedTuple):
    """Cells that say where tokens go: `row` [MOST_TOKENS] int64, and `length` int32, the
    number of rows with each; `first` is the first row at capture."""

    first: int
    row: Tensor
    length: Tensor


class Lengths:
    """The number of rows that attention reads, [1] int32 on the device."""

    def __init__(self) -> None:
        self._captured: Mapping[int, Stored] | None = None

    def of(self, rows: Tensor) -> Tensor:
        """The number of `rows`, or in a trace that of the replayed token.

        Raises NotCapturableError if `rows` doesn't grow with the token.
        """
        if self._captured is None:
            return _made(rows.shape[0], rows.device)
        stored = self._captured.get(_place(rows))
        token = rows.shape[0] - 1 - stored.first if stored is not None else -1
        if stored is None or not 0 <= token < stored.length.shape[0]:
            raise NotCapturableError("attention to rows that don't grow")
        return stored.length[token : token + 1]

    @contextmanager
    def read_from(self, captured: Mapping[int, Stored]) -> Iterator[None]:
        """Capture a step that stores to these rows, by the addresses of their storages."""
        self._captured = captured
        try:
            yield
        finally:
            self._captured = None


LENGTHS = Lengths()


@lru_cache(maxsize=1)
def _made(length: int, device: torch.device) -> Tensor:
    """Once for all layers of a step, without waiting for the GPU."""
    return torch.full((1,), length, dtype=torch.int32, device=device)


class Graph:
    def __init__(self, device: torch.device, token: int) -> None:
        self._token = token
        # Of as many tokens as a step may have.
        self._order = torch.arange(MOST_TOKENS, device=device)
        # In all rows, and in those with a base.
        self._whole, self._based = self._from(token), self._from(token)
        self._stored: dict[int, Stored] = {}
        self._replay: Callable[[], object] | None = None

    def store(self, new: Tensor, rows: Tensor, base: int | None = None) -> None:
        stored = self._whole
        if base is not None:
            if self._based.first != self._token - base:
                self._based = self._from(self._token - base)
            stored = self._based
        self._stored[_place(rows)] = stored
        rows.index_copy_(0, stored.row[: new.shape[0]], new)

    def copy(self, numbers: Tensor, to: Tensor, *, soon: bool) -> None:
        to.copy_(numbers)

    def part(self) -> None:
        """A graph is replayed whole, in milliseconds."""

    def replay(self, token: int, check: Callable[[], None], base: int = 0) -> None:
        assert self._replay is not None
        check()
        for stored, first in ((self._whole, token), (self._based, token - base)):
            torch.add(self._order, first, out=stored.row)
            stored.length.copy_(stored.row).add_(1)
        self._replay()

    def note(self, capture: CaptureLaunches, step: Callable[[Tracer], Tensor]) -> Tensor:
        """Run `step` once, which also compiles it, then capture it."""
        with LENGTHS.read_from(self._stored):
            with _RowsAreLeftAlone(self._stored):
                found = step(self)
            try:
                self._replay, result = capture(lambda: step(self))
            except RuntimeError as error:  # what a graph can't hold, as a word from the GPU
                lines = str(error).splitlines() or [""]
                raise NotCapturableError(f"no graph: {lines[0][:200]}") from error
        return result.copy_(found)

    def _from(self, row: int) -> Stored:
        rows = self._order + row
        return Stored(row, rows, (rows + 1).int())


def capture_step(
    device: torch.device, capture: CaptureLaunches, token: int, step: Callable[[Tracer], Tensor]
) -> tuple[Graph, Tensor]:
    graph = Graph(device, token)
    return graph, graph.note(capture, step)


def cuda_capture(step: Callable[[], Tensor]) -> tuple[Callable[[], object], Tensor]:
    """Raises RuntimeError for a step that waits for the GPU."""
    graph = torch.cuda.CUDAGraph()
    # Other threads may use the GPU meanwhile. Where ending a capture fails, torch leaves the thread
    # on the stream of the capture: the outer block brings it back.
    with (
        torch.cuda.stream(torch.cuda.current_stream()),
        torch.cuda.graph(graph, capture_error_mode="thread_local"),
    ):
        result = step()
    return graph.replay, result


class _RowsAreLeftAlone(Watch):
    """Raises if torch reads or writes stored rows."""

    def __init__(self, stored: Mapping[int, Stored]) -> None:
        super().__init__()
        self._stored = stored

    def do(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        found = func(*args, **kwargs)
        is_view = func.is_view and lies_in(found, args[0])
        if not (is_view or func in _ALLOWED) and self._takes_rows((*args, *kwargs.values())):
            raise NotCapturableError(str(func))
        return found

    def _takes_rows(self, given: Sequence[Any]) -> bool:
        return any(
            isinstance(each, Tensor) and _place(each) in self._stored
            for part in given
            for each in (part if isinstance(part, list | tuple) else (part,))
        )


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
