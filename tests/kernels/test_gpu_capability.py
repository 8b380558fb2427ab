"""Each thing that GPU kernels can lack is named, and said once."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch

from kernels.common import capability


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    capability.gpu_kernels_run.cache_clear()
    yield
    capability.gpu_kernels_run.cache_clear()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine that lacks nothing; tests take things from it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(capability, "find_spec", lambda name: object())
    monkeypatch.setattr(capability, "_try_one", lambda: None)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    return monkeypatch


def test_a_machine_that_lacks_nothing(gpu: pytest.MonkeyPatch) -> None:
    assert capability.what_is_missing() is None
    assert capability.gpu_kernels_run()


def test_what_is_missing_is_named(gpu: pytest.MonkeyPatch) -> None:
    """One after the other, the later ones first: each is reported before those behind it."""

    def fails() -> None:
        raise RuntimeError("Failed to find C compiler")

    gpu.setattr(capability, "_try_one", fails)
    assert "C compiler" in str(capability.what_is_missing())
    gpu.setenv("TRITON_INTERPRET", "1")
    assert "TRITON_INTERPRET" in str(capability.what_is_missing())
    gpu.setattr(capability, "find_spec", lambda name: None)
    assert "not installed" in str(capability.what_is_missing())
    gpu.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert "8.0" in str(capability.what_is_missing())
    gpu.setattr(torch.version, "cuda", None)
    assert "NVIDIA" in str(capability.what_is_missing())
    gpu.setattr(torch.cuda, "is_available", lambda: False)
    assert "no CUDA device" in str(capability.what_is_missing())


def test_it_is_said_once(gpu: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    gpu.setattr(torch.cuda, "is_available", lambda: False)
    assert not capability.gpu_kernels_run()
    assert not capability.gpu_kernels_run()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
