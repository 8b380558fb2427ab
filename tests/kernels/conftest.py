"""Where GPU kernels run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.one_thread import one_thread

__all__ = ["device", "one_thread"]


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
