"""What a segment store holds: sizes, parents, owners, and what goes first when room is needed.

Pure bookkeeping, without files. Three rules hold at any time. A segment is held only while what it
needs is held: a run's KV needs the KV of the run before it, a state the KV of its own run. Who owns
a segment owns everything that it needs. And KV is worth its bytes only while a state at or below it
can be gone on from, except on the chain that is being written, whose state comes last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from core.cache.disk.owners import Record
from core.cache.disk.segment import SegmentId, SegmentKind


@dataclass(slots=True)
class Held:
    """A segment's size, and when it was last used as a count that only grows."""

    num_bytes: int
    last_used: int


class SegmentIndex:
    """The segments of one store. Records of owners stay known when their segment is gone, and go
    with their owner."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self._held: dict[SegmentId, Held] = {}
        self._parents: dict[bytes, bytes | None] = {}  # of each run that a record names
        self._owners: dict[SegmentId, set[str]] = {}
        self._recorded: dict[str, dict[SegmentId, None]] = {}  # needed ones before needing ones
        self._children: dict[bytes, set[bytes]] = {}  # of held runs
        self._num_states: dict[bytes, int] = {}  # at or below each held run
        self._newest: bytes | None = None  # the newest run of the chain being written
        self._clock = 0

    def __contains__(self, name: SegmentId) -> bool:
        return name in self._held

    def __iter__(self) -> Iterator[SegmentId]:
        return iter(self._held)

    def size(self, name: SegmentId) -> int:
        return self._held[name].num_bytes

    def parent(self, name: SegmentId) -> bytes | None:
        """The key of the run before this segment's run; None at the start and for embeddings."""
        return self._parents[name.key] if name.kind is not SegmentKind.EMBEDDING else None

    def needed_by(self, name: SegmentId) -> SegmentId | None:
        """What must be held for `name` to be of any use."""
        if name.kind is SegmentKind.EMBEDDING:
            return None
        if name.kind is SegmentKind.STATE:
            return SegmentId(SegmentKind.KV, name.key)
        parent = self._parents[name.key]
        return SegmentId(SegmentKind.KV, parent) if parent is not None else None

    def introduce(self, name: SegmentId, parent: bytes | None) -> None:
        """Learn where a segment belongs before it is held; what it needs must be held."""
        if name.kind is SegmentKind.KV:
            assert self._parents.setdefault(name.key, parent) == parent
        needed = self.needed_by(name)
        assert needed is None or needed in self._held

    # -- owners

    def unrecorded(self, owner: str, name: SegmentId) -> list[Record]:
        """What must be recorded, in this order, for `owner` to own `name` and all it needs."""
        recorded = self._recorded.get(owner, {})
        missing = []
        at: SegmentId | None = name
        while at is not None and at not in recorded:
            missing.append(Record(at, self.parent(at)))
            at = self.needed_by(at)
        return missing[::-1]

    def record(self, owner: str, records: Iterable[Record]) -> None:
        for record in records:
            self._recorded.setdefault(owner, {})[record.name] = None
            self._owners.setdefault(record.name, set()).add(owner)

    def records(self, owner: str) -> list[Record]:
        """All that is recorded of an owner, what is needed before what needs it."""
        return [Record(name, self.parent(name)) for name in self._recorded.get(owner, {})]

    def owners(self) -> list[str]:
        return list(self._recorded)

    def disown(self, owner: str) -> None:
        """Strike an owner from everything, and drop what then has none or serves no state."""
        unowned = []
        for name in self._recorded.pop(owner, {}):
            self._owners[name].discard(owner)
            if not self._owners[name]:
                unowned.append(name)
        for name in self._deepest_first(name for name in unowned if name in self._held):
            self.drop(name)
        for name in self.stateless(self.being_written()):
            self.drop(name)
        for name in unowned:
            del self._owners[name]
            if name.kind is SegmentKind.KV:
                del self._parents[name.key]

    # -- what is held

    def hold(self, name: SegmentId, num_bytes: int) -> None:
        """A segment is on disk now; the newest used of all."""
        self._held[name] = Held(num_bytes, self._tick())
        self.num_bytes += num_bytes
        if name.kind is SegmentKind.KV:
            parent = self._parents[name.key]
            if parent is not None:
                self._children[parent].add(name.key)
            self._children[name.key] = set()
            self._num_states[name.key] = 0
            self._newest = name.key
        elif name.kind is SegmentKind.STATE:
            for key in self.path(name.key):
                self._num_states[key] += 1
            if self._newest == name.key:
                self._newest = None

    def drop(self, name: SegmentId) -> None:
        """A segment is no longer on disk; nothing held may need it."""
        self.num_bytes -= self._held.pop(name).num_bytes
        if name.kind is SegmentKind.STATE:
            for key in self.path(name.key):
                self._num_states[key] -= 1
        elif name.kind is SegmentKind.KV:
            assert not self._children.pop(name.key) and not self._num_states.pop(name.key)
            parent = self._parents[name.key]
            if parent is not None:
                self._children[parent].discard(name.key)
            if self._newest == name.key:
                self._newest = None

    def use(self, name: SegmentId) -> None:
        self._held[name].last_used = self._tick()

    def path(self, key: bytes | None) -> list[bytes]:
        """The keys from run `key` up to the first run."""
        keys = []
        while key is not None:
            keys.append(key)
            key = self._parents[key]
        return keys

    def with_dependents(self, name: SegmentId) -> list[SegmentId]:
        """A segment and all that can't be restored without it, those that need others first."""
        if name.kind is not SegmentKind.KV:
            return [name]
        keys = [name.key]
        for key in keys:
            keys.extend(self._children[key])
        states = (SegmentId(SegmentKind.STATE, key) for key in keys)
        runs = (SegmentId(SegmentKind.KV, key) for key in reversed(keys))
        return [*(state for state in states if state in self._held), *runs]

    # -- what goes first

    def in_use(self, name: SegmentId) -> Collection[bytes]:
        """The runs that must stay while `name` is written."""
        if name.kind is SegmentKind.KV:
            return set(self.path(self.parent(name)))
        if name.kind is SegmentKind.STATE:
            return {*self.path(name.key), *self.being_written()}
        return self.being_written()

    def being_written(self) -> frozenset[bytes]:
        """The runs of the chain whose state is still to come."""
        return frozenset(self.path(self._newest))

    def stateless(self, keep: Collection[bytes]) -> list[SegmentId]:
        """Runs outside `keep` that no state needs, deepest first."""
        return self._deepest_first(
            SegmentId(SegmentKind.KV, key)
            for key, num_states in self._num_states.items()
            if num_states == 0 and key not in keep
        )

    def victims(self, num_bytes: int, keep: Collection[bytes]) -> list[SegmentId] | None:
        """What to drop, in this order, to free so many bytes; None when that can't be done.

        First goes the KV that no state needs, then the least recently used states and embeddings,
        each state with the KV that nothing else needs. Runs in `keep` stay.
        """
        chosen = self.stateless(keep)
        freed = sum(self.size(name) for name in chosen)
        num_states = dict(self._num_states)
        for name in sorted(
            (name for name in self._held if name.kind is not SegmentKind.KV),
            key=lambda name: self._held[name].last_used,
        ):
            if freed >= num_bytes:
                break
            gone = [name, *self._released(name, num_states, keep)]
            chosen += gone
            freed += sum(self.size(each) for each in gone)
        return chosen if freed >= num_bytes else None

    def _released(
        self, name: SegmentId, num_states: dict[bytes, int], keep: Collection[bytes]
    ) -> Iterator[SegmentId]:
        """The runs that nothing needs once state `name` is gone, deepest first."""
        if name.kind is SegmentKind.STATE:
            for key in self.path(name.key):
                num_states[key] -= 1
                if num_states[key] == 0 and key not in keep:
                    yield SegmentId(SegmentKind.KV, key)

    def _deepest_first(self, names: Iterable[SegmentId]) -> list[SegmentId]:
        """Sorted so that nothing comes before what needs it."""
        depths = {
            name: len(self.path(name.key)) + (name.kind is SegmentKind.STATE)
            if name.kind is not SegmentKind.EMBEDDING
            else 0
            for name in names
        }
        return sorted(depths, key=lambda name: depths[name], reverse=True)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def check_integrity(self) -> None:
        """Assert the three rules and every count; for tests."""
        assert self.num_bytes == sum(held.num_bytes for held in self._held.values())
        runs = {name.key for name in self._held if name.kind is SegmentKind.KV}
        assert set(self._children) == set(self._num_states) == runs
        counts = dict.fromkeys(runs, 0)
        for name in self._held:
            needed = self.needed_by(name)
            assert needed is None or needed in self._held
            if name.kind is SegmentKind.STATE:
                for key in self.path(name.key):
                    counts[key] += 1
        assert counts == self._num_states
        for key in runs:
            assert self._children[key] == {child for child in runs if self._parents[child] == key}
        for owner, recorded in self._recorded.items():
            for name in recorded:
                needed = self.needed_by(name)
                assert owner in self._owners[name] and (needed is None or needed in recorded)
        assert all(self._owners.get(name) for name in self._held)
        assert self._newest is None or self._newest in runs
