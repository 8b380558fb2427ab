from tests.kernels.conftest import device
from tests.one_thread import one_thread

__all__ = ["device", "one_thread"]
