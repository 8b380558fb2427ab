"""One thread: tiny operations cost less than waking a second one. And where GPU kernels run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.kernels.conftest import device

__all__ = ["device"]


@pytest.fixture(scope="package", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
