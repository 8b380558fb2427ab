"""The compiled kernels as Python sees them: loading them, and what each function takes.

Calls hold Python's lock. So there is one at a time, as the team of threads and the rows that it
keeps in place want it.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs
import torch
from torch import Tensor

from kernels.native.build import CannotCompileError, built

_LOG = logging.getLogger(__name__)
_POINTER, _LONG, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_float
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "linear_bfloat": (*[_POINTER] * 4, *[_LONG] * 3, _INT),
    "linear_int8": (*[_POINTER] * 5, *[_LONG] * 3, _INT, _INT),
    "linear_int4": (*[_POINTER] * 5, *[_LONG] * 4, _INT, _INT),
    "unpack_int4": (*[_POINTER] * 3, _LONG, _LONG, _INT, _INT),
    "scale_sums": (*[_POINTER] * 5, _LONG, _LONG, _LONG, _INT, _INT),
    "rms_norm": (*[_POINTER] * 3, *[_LONG] * 5, _FLOAT, _INT, _INT),
    "gated_rms_norm": (*[_POINTER] * 4, *[_LONG] * 4, _FLOAT, _INT, _INT),
    "convolve": (*[_POINTER] * 3, *[_LONG] * 4, _INT, _INT),
    "conv_step": (*[_POINTER] * 4, _LONG, _LONG, _INT),
    "rotate": (*[_POINTER] * 4, *[_LONG] * 6, _INT, _INT),
    "delta_step": (*[_POINTER] * 7, *[_LONG] * 4, _INT),
    "delta_gates": (*[_POINTER] * 6, *[_LONG] * 3, _INT),
    "delta_net_step": (*[_POINTER] * 11, *[_LONG] * 5, _FLOAT, _INT, _INT),
    "attend": (*[_POINTER] * 4, *[_LONG] * 6, _FLOAT, _INT, _INT),
    "swiglu": (*[_POINTER] * 3, *[_LONG] * 3, _INT, _INT),
}
MOST_NUMBERS = 2**20  # of rows that are multiplied, together: linear/product.h
TYPES = (torch.bfloat16, torch.float32)


class Library:
    """The functions of the compiled kernels by their names in C, less `waymark_`.

    `digest` differs wherever two compilers made different code.
    """

    def __init__(self, path: Path) -> None:
        self.digest = hashlib.blake2b(path.read_bytes(), digest_size=6).hexdigest()
        loaded = ctypes.PyDLL(str(path))
        # To be called before memory goes that a product has read.
        self.quiet = loaded.team_quiet
        for name, types in _SIGNATURES.items():
            function = getattr(loaded, f"waymark_{name}")
            function.argtypes = types
            function.restype = ctypes.c_int if name == "attend" else None
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def compiled() -> Library | None:
    """The kernels for this processor; None where there are none, and the log says once why.

    The first call on a machine compiles them, for some seconds.
    """
    found = _found()
    return found if isinstance(found, Library) else None


def why_none() -> str:
    """Why there are no compiled kernels, for a person to read; empty where there are."""
    found = _found()
    return "" if isinstance(found, Library) else found


@cache
def _found() -> Library | str:
    try:
        return Library(built(cache_folder()))
    except (CannotCompileError, OSError, AttributeError) as error:
        _LOG.warning("Compiled kernels are not used, replies are slower: %s", error)
        return str(error)


def cache_folder() -> Path:
    """Where compiled kernels are kept, for all that this user runs."""
    return platformdirs.user_cache_path("waymark", appauthor=False) / "kernels"


def address(tensor: Tensor | None) -> int | None:
    """Where a tensor's numbers begin; None for none."""
    return None if tensor is None else tensor.data_ptr()
