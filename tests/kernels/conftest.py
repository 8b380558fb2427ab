"""One thread: tiny operations cost less than waking a second one. And where GPU kernels run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(scope="package", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def device() -> Iterator[torch.device]:
    """A GPU for `make test-gpu`, else a CPU that plays one."""
    from tests.kernels.gpu import ON_GPU, hardware_arithmetic

    if not ON_GPU:
        with hardware_arithmetic():
            yield torch.device("cpu")
    elif torch.cuda.is_available():
        yield torch.device("cuda")
    else:
        pytest.skip("torch finds no CUDA device here")
