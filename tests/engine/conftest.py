"""Every promise is tested with a real engine."""

from tests.promises.fixtures import folder_of, kept, loaded_of, machine, one_thread, picture

__all__ = ["folder_of", "kept", "loaded_of", "machine", "one_thread", "picture"]
