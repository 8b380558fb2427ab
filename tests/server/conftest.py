import pytest

from tests.one_thread import workers_of_one_thread
from tests.promises.fixtures import folder_of, picture
from tests.server.serving import ScriptedEngine, Served

__all__ = ["folder_of", "picture", "workers_of_one_thread"]


@pytest.fixture
def engine(served: Served) -> ScriptedEngine:
    """The engine behind a module's `served`, with nothing asked yet."""
    scripted: ScriptedEngine = served.engine
    scripted.commands.clear()
    return scripted
