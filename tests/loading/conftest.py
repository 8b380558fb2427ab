"""Real model folders, opened on one thread."""

from tests.models.conftest import _one_thread, device
from tests.promises.fixtures import folder_of, loaded_of, machine, one_thread, picture

__all__ = ["_one_thread", "device", "folder_of", "loaded_of", "machine", "one_thread", "picture"]
