"""Real model folders, opened on one thread."""

from tests.models.conftest import device
from tests.promises.fixtures import folder_of, loaded_of, machine, one_thread, picture

__all__ = ["device", "folder_of", "loaded_of", "machine", "one_thread", "picture"]
