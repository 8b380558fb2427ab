from collections.abc import Iterator

import pytest

from tests.promises.fixtures import folder_of, picture
from tests.server.serving import ScriptedEngine, Served

__all__ = ["folder_of", "picture"]


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    """For the workers, which inherit it: tiny operations cost less than waking a second thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture
def engine(served: Served) -> ScriptedEngine:
    """The engine behind a module's `served`, with nothing asked yet."""
    scripted: ScriptedEngine = served.engine
    scripted.commands.clear()
    return scripted
