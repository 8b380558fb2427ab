import pytest

from tests.cache.worlds import World


@pytest.fixture
def world() -> World:
    return World()
