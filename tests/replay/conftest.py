from tests.one_thread import workers_of_one_thread
from tests.promises.fixtures import folder_of, picture

__all__ = ["folder_of", "picture", "workers_of_one_thread"]
