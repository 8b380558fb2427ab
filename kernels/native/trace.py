"""Traces of compiled kernels: a list of calls, replayed in C.

A captured step may call the library, make views and allocate tensors. Anything else ends the
capture.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, get_num_threads

from kernels.common.memory import lies_in
from kernels.common.trace import MAKE_ROOM, NotCapturableError, Tracer, Watch
from kernels.native.library import Call, Library, address, has_dense_tokens


class _Call(ctypes.Structure):
    _fields_ = (("kernel", ctypes.c_void_p), ("arguments", ctypes.c_void_p))


def _address_of(call: Call) -> _Call:
    kernel, arguments = call
    return _Call(ctypes.cast(kernel, ctypes.c_void_p).value, ctypes.addressof(arguments))


class CallTrace:
    def __init__(self, library: Library, token: int) -> None:
        self._library = library
        self._token = token
        # The row where the token is stored: in all rows, and in those with a base.
        self._row, self._based_row = ctypes.c_int64(token), ctypes.c_int64(token)
        self._calls: list[Call] = []
        self._ends: list[int] = []
        # Whatever was there meanwhile: calls know addresses only.
        self._tensors: list[Any] = []
        self._array: Any = None

    def store(self, new: Tensor, rows: Tensor, base: int | None = None) -> None:
        alike = new.dtype == rows.dtype and new.shape[1:] == rows.shape[1:]
        if not (has_dense_tokens(new) and rows.is_contiguous() and alike):
            raise NotCapturableError("a row of another kind, or not in one piece")
        row = self._row
        if base is not None:
            row, self._based_row.value = self._based_row, self._token - base
        place = ctypes.addressof(row)
        size, stride = new[0].nbytes, new.stride(0) * new.element_size()
        self._library.store(address(new), address(rows), place, new.shape[0], size, stride)
        self._tensors += (new, rows)
        assert self._library.stored is not None
        self._library.stored[rows.data_ptr()] = row

    def copy(self, numbers: Tensor, to: Tensor, *, soon: bool) -> None:
        whole = numbers.is_contiguous() and to.is_contiguous()
        if not (whole and numbers.shape == to.shape and numbers.dtype == to.dtype):
            raise NotCapturableError("a copy of another kind, or not in one piece")
        places = address(numbers), address(to)
        self._library.copy(*places, numbers.nbytes, not soon, get_num_threads())
        self._tensors += (numbers, to)

    def part(self) -> None:
        self._ends.append(len(self._calls))

    def replay(self, token: int, check: Callable[[], None], base: int = 0) -> None:
        self._row.value, self._based_row.value, first = token, token - base, 0
        for end in self._ends:
            check()
            if self._library.replay(self._array, first, end) != end:
                raise MemoryError("No memory for a step")
            first = end

    def note(self, step: Callable[[Tracer], Tensor]) -> Tensor:
        library = self._library
        library.noted, library.stored = self._calls, {}
        try:
            with _NothingElse(self._tensors):
                found = step(self)
        finally:
            library.noted = library.stored = None
        self.part()
        self._array = (_Call * len(self._calls))(*map(_address_of, self._calls))
        return found


def capture_step(
    library: Library, token: int, step: Callable[[Tracer], Tensor]
) -> tuple[CallTrace, Tensor]:
    trace = CallTrace(library, token)
    return trace, trace.note(step)


class _NothingElse(Watch):
    """Keeps the tensors of views and allocations alive."""

    def __init__(self, tensors: list[Any]) -> None:
        super().__init__()
        self._tensors = tensors

    def do(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if not (func in MAKE_ROOM or func.is_view):
            raise NotCapturableError(str(func))
        found = func(*args, **kwargs)
        if func not in MAKE_ROOM and not lies_in(found, args[0]):
            raise NotCapturableError(str(func))
        self._tensors.append(found)
        return found
