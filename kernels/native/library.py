"""Loads, calls and records the compiled kernels.

calls.h is the only description of a call; its structs are read here. Calls release Python's lock.
The thread pool takes one call at a time.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs
import torch
from torch import Tensor, get_num_threads

from kernels.common.memory import lies_in
from kernels.common.trace import MAKE_ROOM, NotCapturableError, Tracer, Watch
from kernels.native.build import CannotCompileError, built
from kernels.native.levels import NoSuchLevelError, executable, wished
from kernels.native.shipped import NoneShippedError, usable

_LOG = logging.getLogger(__name__)
MOST_NUMBERS = 2**20  # of rows that are multiplied, together: linear/product.h
_INTELS = ("__kmpc_fork_call", "__kmpc_push_num_threads", "__kmpc_global_thread_num")
TYPES = (torch.bfloat16, torch.float32)

_HEADER = Path(__file__).with_name("calls.h")
_C_TYPES = {"long": ctypes.c_int64, "int": ctypes.c_int, "float": ctypes.c_float}
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STRUCT = re.compile(r"struct (\w+) \{(.*?)\};", re.DOTALL)
_FUNCTION = re.compile(r"int waymark_(\w+)\(struct (\w+) \*\);")

Call = tuple[Any, ctypes.Structure]
"""A function of the library and its arguments."""
Kernel = Callable[..., None]
"""Called with the members of its struct in calls.h, in order."""


@cache
def calls() -> dict[str, type[ctypes.Structure]]:
    """The struct that each kernel takes, by name without `waymark_`."""
    text = _COMMENT.sub("", _HEADER.read_text(encoding="utf-8"))
    structs = {name: _struct(name, body) for name, body in _STRUCT.findall(text)}
    return {name: structs[struct] for name, struct in _FUNCTION.findall(text)}


def _struct(name: str, body: str) -> type[ctypes.Structure]:
    fields = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        kind, members = declaration.removeprefix("const ").split(maxsplit=1)
        for member in members.split(","):
            pointer = member.strip().startswith("*")
            fields.append((member.strip(" *"), ctypes.c_void_p if pointer else _C_TYPES[kind]))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


class Library:
    """Calls the kernels of calls.h by name, with the members of their structs in order.

    `digest` identifies the compiled code. During capture `noted` collects the calls, and `stored`
    has, for each address of rows that are stored to, the row of the token.
    """

    def __init__(self, path: Path) -> None:
        self.digest = hashlib.blake2b(path.read_bytes(), digest_size=6).hexdigest()
        self.noted: list[Call] | None = None
        self.stored: dict[int, ctypes.c_int64] | None = None
        # A matrix may be freed, which waits, in the middle of another call of this thread.
        self._turn = threading.RLock()
        loaded = ctypes.CDLL(str(path))
        self._quiet = loaded.pool_quiesce
        self._replay = loaded.waymark_replay
        self._replay.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self._replay.restype = ctypes.c_int64
        self._column_bytes = loaded.waymark_column_bytes
        self._column_bytes.argtypes = (ctypes.c_int, ctypes.c_int64)
        self._column_bytes.restype = ctypes.c_int64
        _share_threads(loaded)
        # True if products of many rows use AMX.
        self.has_tiles = bool(loaded.waymark_has_tiles())
        # True if it has instructions for products of bfloat16.
        self.has_pairs = bool(loaded.waymark_has_pairs())
        for name, struct in calls().items():
            setattr(self, name, self._caller(getattr(loaded, f"waymark_{name}"), struct))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def wait_idle(self) -> None:
        """Wait until no thread reads the weights; call before freeing them."""
        with self._turn:
            self._quiet()

    def replay(self, calls: Any, first: int, end: int) -> int:
        """Returns the index reached."""
        with self._turn:
            return int(self._replay(calls, first, end))

    def column_bytes(self, format: int, inputs: int) -> int:
        """Bytes of the tiles of sixteen outputs (linear/blocks.h) of a GGUF type."""
        return int(self._column_bytes(format, inputs))

    def _caller(self, function: Any, struct: type[ctypes.Structure]) -> Callable[..., None]:
        function.argtypes, function.restype = (ctypes.c_void_p,), ctypes.c_int
        turn = self._turn

        def call(*members: Any) -> None:
            arguments = struct(*members)
            with turn:
                done = function(ctypes.addressof(arguments))
            if not done:
                raise MemoryError(f"No memory for {function.__name__}")
            if self.noted is not None:
                self.noted.append((function, arguments))

        return call


def _share_threads(library: ctypes.CDLL) -> None:
    """Run prompts on torch's threads, through torch's own OpenMP."""
    names = {"darwin": "libtorch_cpu.dylib", "win32": "libiomp5md.dll"}
    name = names.get(sys.platform, "libtorch_cpu.so")
    try:
        torchs = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / name))
        if sys.platform == "win32":
            library.pool_share_with_intel(*(getattr(torchs, name) for name in _INTELS))
        else:
            library.pool_share_with(torchs.GOMP_parallel)
    except (OSError, AttributeError):
        _LOG.info("Torch's threads are not shared, so prompts are slower: %s has another way", name)


def compiled(check: Callable[[], None] | None = None) -> Library | None:
    """The kernels for this processor; if there are none, None, and the log says why once.

    The first call compiles or validates them; after `check` raises, the next call starts anew.
    """
    found = _found(check)
    return found if isinstance(found, Library) else None


def why_none() -> str:
    found = _found()
    return "" if isinstance(found, Library) else found


# The result of `_found` in this process.
_FOUND: list[Library | str] = []


def _found(check: Callable[[], None] | None = None) -> Library | str:
    if not _FOUND:
        found = _chosen(check)
        if isinstance(found, str):
            _LOG.warning("Compiled kernels are not used, replies are slower: %s", found)
        _FOUND.append(found)
    return _FOUND[0]


def _chosen(check: Callable[[], None] | None) -> Library | str:
    """The compiled library, else a shipped one, else the reasons."""
    try:
        level = wished()
    except NoSuchLevelError as error:
        return str(error)
    try:
        return Library(built(cache_folder(), check))
    except (CannotCompileError, OSError, AttributeError) as error:
        why = str(error)
    try:
        path = usable(executable() if level is None else (level,), cache_folder(), check)
        library = Library(path)
    except (NoneShippedError, CannotCompileError, OSError, AttributeError) as error:
        return f"{why}; {error}" if str(error) not in {"", why} else why
    _LOG.info("Kernels that came along are used, %s, since none were compiled: %s", path.stem, why)
    return library


def cache_folder() -> Path:
    return platformdirs.user_cache_path("waymark", appauthor=False) / "kernels"


def address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def is_bfloat(tensor: Tensor) -> bool:
    return tensor.dtype == torch.bfloat16


def is_float32(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32


def in_rows(tensor: Tensor) -> bool:
    """True if rows are contiguous and of a type that kernels read."""
    return tensor.dtype in TYPES and tensor.stride(-1) == 1


def has_dense_tokens(tensor: Tensor) -> bool:
    """True if the numbers of each token are adjacent."""
    heads_join = tensor.dim() == 2 or tensor.shape[1] == 1 or tensor.stride(1) == tensor.shape[2]
    return tensor.stride(-1) == 1 and heads_join


class CallTrace:
    def __init__(self, library: Library, token: int) -> None:
        self._library, self._token = library, token
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
        pointers = (
            pointer
            for kernel, arguments in self._calls
            for pointer in (ctypes.cast(kernel, ctypes.c_void_p).value, ctypes.addressof(arguments))
        )
        self._array = (ctypes.c_void_p * (2 * len(self._calls)))(*pointers)
        return found


def capture_step(
    library: Library, token: int, step: Callable[[Tracer], Tensor]
) -> tuple[CallTrace, Tensor]:
    trace = CallTrace(library, token)
    return trace, trace.note(step)


class _NothingElse(Watch):
    """Ends the capture at all but calls of the library, views and allocations; keeps tensors
    alive."""

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
