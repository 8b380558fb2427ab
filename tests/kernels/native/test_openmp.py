"""Sharing torch's threads, which another OpenMP would have to offer in another way."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch

from kernels.native import library
from kernels.native.build import built
from kernels.native.library import Library
from kernels.native_ops import native_ops
from tests.kernels.native.here import COMPILES

pytestmark = COMPILES
_MICRO = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_FORK = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, _MICRO, ctypes.c_void_p, ctypes.c_void_p
)
_PUSH = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
_NUMBER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[Library, Any]]:
    """A library that no other test uses, and its functions as they are."""
    path = tmp_path / "kernels.so"
    path.write_bytes(built(library.cache_folder()).read_bytes())
    torch.set_num_threads(3)
    yield Library(path), ctypes.CDLL(str(path))
    torch.set_num_threads(1)


def product(found: Library) -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    gate = torch.randn(400, 600, generator=draw)
    result: torch.Tensor = native_ops(found).swiglu(gate, gate)
    return result


def test_torchs_threads_are_shared(own: tuple[Library, Any]) -> None:
    assert own[1].pool_shares_rows() == 1


def test_without_them_prompts_run_on_our_own(own: tuple[Library, Any]) -> None:
    found, functions = own
    expected = product(found)
    functions.pool_share_with(None)
    assert functions.pool_shares_rows() == 0
    assert all(torch.equal(product(found), expected) for _ in range(20))


@pytest.mark.skipif(
    platform.machine() not in {"x86_64", "AMD64"}, reason="Python can't play C's `...` elsewhere"
)
def test_three_functions_of_another_openmp_do_the_same(own: tuple[Library, Any]) -> None:
    """On Windows, threads are requested, and each is given the work."""
    asked: list[int] = []

    def fork(place: int, count: int, task: Any, work: int, argument: int) -> None:
        assert count == 2
        threads = [Thread(target=task, args=(None, None, work, argument)) for _ in range(asked[-1])]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    found, functions = own
    expected = product(found)
    played = _FORK(fork), _PUSH(lambda place, own, count: asked.append(count)), _NUMBER(lambda _: 0)
    functions.pool_share_with_intel(*played)
    assert torch.equal(product(found), expected)
    assert asked == [3]


def test_where_torch_has_another_way_kernels_run_all_the_same(
    own: tuple[Library, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "torch" / "__init__.py"))
    path = tmp_path / "another.so"
    path.write_bytes((tmp_path / "kernels.so").read_bytes())
    found = Library(path)
    assert ctypes.CDLL(str(path)).pool_shares_rows() == 0
    assert torch.equal(product(found), product(own[0]))
