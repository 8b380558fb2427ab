from collections.abc import Iterator

import pytest

from tests.one_thread import workers_of_one_thread
from tests.promises.fixtures import folder_of, picture
from tests.server.serving import ScriptedEngine, Served, serving

__all__ = ["folder_of", "picture", "workers_of_one_thread"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    engine = ScriptedEngine(then="I see|A fine day.")
    with serving(engine.connect, tmp_path_factory.mktemp("server")) as served:
        yield served


@pytest.fixture
def engine(served: Served) -> ScriptedEngine:
    """The engine behind a module's `served`, with nothing asked yet."""
    scripted: ScriptedEngine = served.engine
    scripted.commands.clear()
    return scripted
