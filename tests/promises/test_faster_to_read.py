"""W1, X3: what is on disk is passed by where reading it again is clearly quicker, and that is said.

The speeds are given here; tests and scripts that give none always restore.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from core.api.chat import Message
from core.api.params import CacheSettings
from tests.promises.fixtures import LoadedOf, PictureOf
from tests.promises.machine import DEFAULT, Machine, last_end, system, user, words

WHEN_FASTER = CacheSettings(count=32, interval=1, restore="when_faster")


@pytest.fixture
def reopened(loaded_of: LoadedOf, tmp_path: Path) -> Machine:
    """A machine that has only the disk to go on from."""
    machine = Machine(loaded_of("hybrid"), tmp_path / "cache")
    machine.ask(CHAT)
    machine.reopen()
    return machine


CHAT: list[Message] = [system("Be brief."), user(words(120))]


def given(machine: Machine, prefill: float, disk: float | None) -> None:
    """Seconds for a token read and for a byte fetched."""
    pace = machine.cache.throughput
    pace.prefill, pace.encode, pace.disk = prefill, prefill, disk


def bytes_to_fetch(machine: Machine, tokens: int) -> int:
    info = machine.base.info
    return tokens * info.kv_bytes_per_token + info.checkpoint_bytes


@pytest.mark.parametrize(("times", "read"), [(1.9, False), (2.1, True)])
def test_W1_X3_a_restore_that_takes_twice_as_long_as_reading_is_passed(
    reopened: Machine, times: float, read: bool
) -> None:
    end = last_end(reopened.prompt(CHAT).ids(0))
    given(reopened, 1e-3, times * end * 1e-3 / bytes_to_fetch(reopened, end))
    answer = reopened.same_as_cold(CHAT, cache=WHEN_FASTER)
    if not read:
        assert answer.stats.restored_from == "disk" and answer.reused == end
        return
    assert answer.reused == 0 and answer.stats.restored_from is None
    miss = answer.stats.miss
    assert (miss.reason, miss.token) == ("faster_to_read", 0)
    # It is in memory now, and nothing of it is read again.
    again = reopened.same_as_cold(CHAT, cache=WHEN_FASTER)
    assert again.fed == () and again.stats.miss is None


@pytest.mark.parametrize(
    ("settings", "disk"), [(DEFAULT, 1.0), (WHEN_FASTER, None)], ids=["asked to", "unmeasured"]
)
def test_X1_a_slow_disk_is_still_restored_from(
    reopened: Machine, settings: CacheSettings, disk: float | None
) -> None:
    given(reopened, 1e-9, disk)
    assert reopened.same_as_cold(CHAT, cache=settings).stats.restored_from == "disk"


def test_W1_what_memory_holds_of_it_is_gone_on_from(reopened: Machine) -> None:
    longer = [*CHAT[:1], user(words(60, "else"))]
    first = reopened.same_as_cold(longer)
    assert first.reused > 0
    given(reopened, 1e-9, 1.0)
    answer = reopened.same_as_cold(CHAT, cache=WHEN_FASTER)
    miss = answer.stats.miss
    assert answer.reused == miss.token == first.reused and miss.reason == "faster_to_read"


def test_W1_a_pictures_tower_counts_as_reading(
    loaded_of: LoadedOf, tmp_path: Path, picture: PictureOf
) -> None:
    machine = Machine(loaded_of("hybrid"), tmp_path / "cache")
    chat: list[Message] = [user(picture(1, "wide"), "What?")]
    machine.ask(chat)
    machine.reopen()
    pace = machine.cache.throughput
    pace.prefill, pace.encode, pace.disk = 1e-9, 1.0, 1e-9
    assert machine.same_as_cold(chat, cache=WHEN_FASTER).stats.restored_from == "disk"
