"""Random lives of a segment store, held to a model that knows no files, after every step."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from torch import Tensor

from core.cache.disk.segment import SegmentKind
from tests.cache.disk.worlds import (
    EMBEDDING,
    KV,
    STATE,
    WINDOW,
    check_integrity,
    key,
    open_store,
    place,
    same,
    tensors,
)
from tests.storage.disks import PLENTY

Name = tuple[SegmentKind, int]
# Run n follows run (n - 1) // 2, and runs 0 and 20 start a text: two trees, branches everywhere.
RUNS = st.one_of(st.integers(0, 12), st.integers(20, 23))
PICTURES = st.integers(30, 34)
OWNERS = st.sampled_from(["", "a", "b", "B"])
NAMES = st.one_of(
    st.tuples(st.sampled_from([KV, STATE]), RUNS), st.tuples(st.just(EMBEDDING), PICTURES)
)
LASTING = STATE, EMBEDDING  # what lasts


def parent_of(run: int) -> int | None:
    if run in (0, 20):
        return None
    return (run - 1) // 2 if run < 20 else run - 1


def needs(name: Name) -> list[Name]:
    """A segment and all that it needs; a state's window has rows of its run and the one before."""
    kind, number = name
    if kind is EMBEDDING:
        return [name]
    found = [name] if kind is not KV else []
    if kind is STATE:
        found += [(WINDOW, at) for at in (number, parent_of(number)) if at is not None]
    at: int | None = number
    while at is not None:
        found.append((KV, at))
        at = parent_of(at)
    return found


def written_with(name: Name) -> set[Name]:
    return {name} | {each for each in needs(name) if each[0] is WINDOW}


def content(name: Name) -> dict[str, Tensor]:
    kind, number = name
    return tensors(number + {STATE: 500, WINDOW: 700}.get(kind, 0), 16 + 100 * (number % 3))


class Lives(RuleBasedStateMachine):
    """`held`, `owners` and `used` say what must be true of the store."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.store = open_store(self.folder)
        self.held: set[Name] = set()
        self.owners: dict[Name, set[str]] = {}
        self.used: dict[Name, int] = {}
        self.chain: int | None = None
        self.now = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    # -- what may be done

    @rule(name=NAMES, owners=st.sets(OWNERS, max_size=2))
    def put(self, name: Name, owners: set[str]) -> None:
        kind, number = name
        new, needed = written_with(name), set(needs(name))
        if not needed - new <= self.held:
            return
        parent = parent_of(number) if kind is not EMBEDDING else None
        above = key(parent) if parent is not None else None
        before = self.actual()
        windows = [
            (*place(*each)[1:], {} if each in self.held else content(each)) for each in new - {name}
        ]
        written = self.store.put(kind, key(number), above, content(name), owners, windows)
        if written:
            self.add_owners(name, owners or {""})
        after = self.actual()
        assert after <= before | new and (not written or new <= after)
        if self.store.cap == PLENTY:
            assert written and after == before | new
        assert needed - new <= after
        if kind is KV and written and name not in before:
            self.chain = number
        elif kind is not KV and self.chain is not None:
            assert set(needs((KV, self.chain))) <= after
            self.chain = None if (kind, number) == (STATE, self.chain) and written else self.chain
        elif self.chain is not None and (KV, self.chain) not in after:
            self.chain = None  # evicted, for another chain began
        if name not in before:
            self.check_evicted(before - after, after - new)
        if written and name not in before:
            self.touch(name)
        self.held = after

    @rule(name=st.one_of(NAMES, st.tuples(st.just(WINDOW), RUNS)))
    def read(self, name: Name) -> None:
        found = self.store.get(*place(*name))
        assert found is None if name not in self.held else same(found, content(name))
        if found is not None and name[0] in LASTING:
            self.touch(name)

    @rule(name=NAMES, owner=OWNERS)
    def own(self, name: Name, owner: str) -> None:
        self.store.own(owner, name[0], key(name[1]))
        if name in self.held:
            self.add_owners(name, {owner})

    @rule(owner=st.sampled_from(["a", "b", "B", "nobody", None]))
    def forget(self, owner: str | None) -> None:
        self.store.forget(owner)
        for owners in self.owners.values():
            owners.difference_update(owners.copy() if owner is None else {owner})
        owned = {name for name in self.held if self.owners[name]}
        after = self.actual()
        assert self.useful(owned) <= after <= owned
        files = len(list(self.folder.glob("*/*")))
        assert files == len(after)
        self.held = after
        if self.chain is not None and (KV, self.chain) not in after:
            self.chain = None

    @precondition(lambda self: self.store.num_bytes > 0)
    @rule(share=st.floats(0, 1))
    def lower_cap(self, share: float) -> None:
        self.store.cap = int(self.store.num_bytes * share)
        after = self.actual()
        self.check_evicted(self.held - after, after)
        self.held = after
        if self.chain is not None and (KV, self.chain) not in after:
            self.chain = None

    @rule()
    def lift_cap(self) -> None:
        self.store.cap = PLENTY

    @rule()
    def reopen(self) -> None:
        self.store = open_store(self.folder, self.store.cap)
        assert not self.store.blobs.closed and self.store.trouble is None
        self.held = self.useful(self.held)
        assert self.actual() == self.held
        # Records of what is gone are cleared away.
        self.owners = {name: self.owners[name] for name in self.held}
        self.chain = None

    # -- what must be true

    @invariant()
    def the_store_is_whole(self) -> None:
        check_integrity(self.store)
        assert self.actual() == self.held
        assert self.store.num_bytes <= self.store.cap

    @invariant()
    def owners_own_all_that_they_need(self) -> None:
        for name in self.held:
            assert all(self.owners[name] <= self.owners[needed] for needed in needs(name))

    # -- helpers

    def actual(self) -> set[Name]:
        runs = [*range(13), *range(20, 24)]
        names = [(kind, run) for kind in (KV, STATE, WINDOW) for run in runs]
        names += [(EMBEDDING, number) for number in range(30, 35)]
        return {name for name in names if self.store.has(*place(*name))}

    def add_owners(self, name: Name, owners: set[str]) -> None:
        for needed in needs(name):
            self.owners.setdefault(needed, set()).update(owners)

    def useful(self, names: set[Name]) -> set[Name]:
        """`names` without the rows that no state among them needs."""
        needed = {each for name in names if name[0] is STATE for each in needs(name)}
        return {name for name in names if name[0] in LASTING or name in needed}

    def check_evicted(self, evicted: set[Name], kept: set[Name]) -> None:
        """Assert that everything evicted was used before everything that stayed."""
        gone = [self.used[name] for name in evicted if name[0] in LASTING]
        stayed = [self.used[name] for name in kept if name[0] in LASTING]
        assert not gone or not stayed or max(gone) < min(stayed)

    def touch(self, name: Name) -> None:
        self.now += 1
        self.used[name] = self.now


@pytest.mark.parametrize("lives", [20, pytest.param(50, marks=pytest.mark.slow)])
def test_D2_M2_D4_every_random_life_leaves_a_whole_store(lives: int) -> None:
    run_state_machine_as_test(Lives, settings=settings(stateful_step_count=80, max_examples=lives))
