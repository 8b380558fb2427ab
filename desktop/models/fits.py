"""Compares models with this computer's memory, and suggests some.

The bytes of a model on the hub are estimated from published sizes.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.api.model_info import HEADROOM_BYTES, TEXT_BYTES, with_room
from core.api.params import Precision
from core.downloads.messages import Repository
from core.library.messages import ModelFacts, Speed, Way
from desktop.i18n import tr
from desktop.numbers import (
    BETWEEN,
    format_bytes,
    format_count,
    format_speed,
    precision_name,
    short_count,
)

# Bytes of a parameter in the precisions that the engine chooses from, the most exact first; a
# twentieth of a model is not quantised.
BYTES_PER_PARAMETER = {"bfloat16": 2.0, "int8": 1.15, "int4": 0.65}
# Blocks of a GGUF file take no less in memory, however few bits they have in the file.
FEWEST_BYTES = 4.375 / 8
# For contexts, pictures and the program itself.
ROOM_BYTES = 10**9
# Other programs can be closed, but the system needs its share.
MOST_OF_ALL = 0.85
# Bytes by how the model would run.
Needs = dict[str, int]
MOST_SUGGESTED = 3
# Slower replies are tiresome to follow.
SLOWEST_TOKENS_S = 3.0
_ACTIVE = re.compile(r"-A(\d+(?:\.\d+)?)B(?:-|$)")


@dataclass(frozen=True, slots=True)
class Memory:
    """`kept` is what the engine leaves free when it loads a model."""

    free: int
    total: int
    kept: int = HEADROOM_BYTES + TEXT_BYTES


class Fit(enum.Enum):
    UNKNOWN = enum.auto()
    FITS = enum.auto()
    TIGHT = enum.auto()
    TOO_LARGE = enum.auto()


def memory() -> Memory:
    # Imported late: used rarely, and takes a megabyte of memory.
    import psutil

    found = psutil.virtual_memory()
    return Memory(int(found.available), int(found.total))


def room(available: Memory) -> int:
    """For a model's weights."""
    return max(0, available.free - ROOM_BYTES)


def needs(parameters: int, gguf_bytes: int = 0) -> Needs:
    """Estimated bytes by precision, the most exact first; empty if unknown."""
    found = {
        tr("in {precision}").format(precision=name): int(parameters * each) + ROOM_BYTES
        for name, each in BYTES_PER_PARAMETER.items()
    }
    if gguf_bytes:
        published = max(gguf_bytes, int(parameters * FEWEST_BYTES)) + ROOM_BYTES
        smaller = {name: each for name, each in found.items() if each < published and parameters}
        return {tr("as published"): published, **smaller}
    return found if parameters else {}


def fit_of(needed: Needs, available: Memory) -> Fit:
    """The fit of the smallest precision."""
    if not needed:
        return Fit.UNKNOWN
    smallest = min(needed.values())
    if smallest <= available.free:
        return Fit.FITS
    return Fit.TIGHT if smallest <= MOST_OF_ALL * available.total else Fit.TOO_LARGE


def describe_fit(needed: Needs, available: Memory) -> str:
    """'Fits in int8: needs about 5.6 GB of memory; 9.1 GB are free.'"""
    found = fit_of(needed, available)
    if found is Fit.UNKNOWN:
        return tr("How much memory it needs is not published.")
    fitting = (way for way, each in needed.items() if each <= available.free)
    way = next(fitting, min(needed, key=lambda each: needed[each]))
    words = {
        Fit.FITS: tr("Fits {way}: needs about {needed} of memory; {free} are free."),
        Fit.TIGHT: tr(
            "Tight: even {way} it needs about {needed} of memory, and {free} are free. Close other "
            "programs first."
        ),
        Fit.TOO_LARGE: tr(
            "Doesn't fit: even {way} it needs about {needed} of memory. {free} are free."
        ),
    }
    free = format_bytes(available.free)
    return words[found].format(way=way, needed=format_bytes(needed[way]), free=free)


def fit_name(fit: Fit) -> str:
    names = {Fit.FITS: tr("fits"), Fit.TIGHT: tr("tight"), Fit.TOO_LARGE: tr("doesn't fit")}
    return names.get(fit, "")


# For a model on this computer.

# A chat with a few pictures; a model that holds fewer tokens needs fewer.
USUAL_CONTEXT = 8_192
SHORTEST_CONTEXT = 2_048


@dataclass(frozen=True, slots=True)
class Verdict:
    """`way` is None if it doesn't fit."""

    fit: Fit
    way: Way | None
    context: int
    words: str


def memory_of(way: Way, context: int) -> int:
    return way.num_bytes + way.context_bytes(context)


def judge(
    facts: ModelFacts, available: Memory, precision: Precision = "auto", context: int | None = None
) -> Verdict:
    wanted = min(context or USUAL_CONTEXT, facts.context or USUAL_CONTEXT)
    automatic = facts.ways[: facts.automatic]
    chosen = [each for each in facts.ways if each.precision == precision]
    if chosen:
        lower = (each for each in automatic if each not in chosen)
        ways = [*chosen, *(each for each in lower if each.num_bytes < chosen[0].num_bytes)]
    else:
        ways = _tried(automatic, available)
    if not ways:
        return Verdict(Fit.UNKNOWN, None, 0, tr("How much memory it needs is not known."))
    for way in ways:
        if _held(way, available) >= wanted:
            lowered = bool(chosen) and way is not chosen[0]
            return _lower(way, wanted) if lowered else _fits(way, wanted, available)
    # None holds so long a context: the one that holds most.
    way = max(ways, key=lambda each: _held(each, available))
    held = _held(way, available)
    if held >= min(SHORTEST_CONTEXT, wanted):
        return _shorter(way, held)
    for way in () if chosen else ways:
        if way.mapped_bytes and _held(way, available, way.mapped_bytes) >= wanted:
            return _mapped(way, wanted)
    smallest = min(ways, key=lambda each: memory_of(each, wanted))
    return _too_large(smallest, min(SHORTEST_CONTEXT, wanted), available)


def _tried(automatic: Sequence[Way], available: Memory) -> list[Way]:
    """Chooses as `core/loading/precision.py` does."""
    found: list[Way] = []
    free = available.free - available.kept + HEADROOM_BYTES
    for way in automatic:
        if not found or (
            with_room(found[0].num_bytes) > free and way.num_bytes < found[0].num_bytes
        ):
            found = [way]
    return found


def _held(way: Way, available: Memory, on_disk: int = 0) -> int:
    """Tokens of context that fit; -1 if not even the weights do."""
    left = available.free - available.kept - way.num_bytes + on_disk
    return -1 if left < 0 else way.context_within(left)


def _fits(way: Way, context: int, available: Memory) -> Verdict:
    words = tr(
        "Fits in {precision}: {needed} with a context of {tokens} tokens, and {free} are free."
    )
    needed, free = format_bytes(memory_of(way, context)), format_bytes(available.free)
    said = words.format(
        precision=precision_name(way.precision),
        needed=needed,
        tokens=format_count(context),
        free=free,
    )
    return Verdict(Fit.FITS, way, context, said)


def _lower(way: Way, context: int) -> Verdict:
    words = tr("Tight: lower the precision to {precision}, with which it needs {needed}.")
    needed = format_bytes(memory_of(way, context))
    said = words.format(precision=precision_name(way.precision), needed=needed)
    return Verdict(Fit.TIGHT, way, context, said)


def _shorter(way: Way, held: int) -> Verdict:
    words = tr(
        "Tight: in {precision} there is memory for a context of {tokens} tokens. Lower the context "
        "length, or close other programs."
    )
    # Free memory changes from moment to moment.
    tokens = held - held % SHORTEST_CONTEXT or held
    said = words.format(precision=precision_name(way.precision), tokens=format_count(tokens))
    return Verdict(Fit.TIGHT, way, tokens, said)


def _mapped(way: Way, context: int) -> Verdict:
    words = tr(
        "Tight: it is larger than the free memory. {size} of it are read from disk for each token, "
        "which is slow."
    )
    said = words.format(size=format_bytes(way.mapped_bytes))
    # The measured speed is that of memory.
    way = way.model_copy(update={"step_s": 0.0, "prompt_s": 0.0})
    return Verdict(Fit.TIGHT, way, context, said)


def _too_large(way: Way, context: int, available: Memory) -> Verdict:
    needed = memory_of(way, context) + available.kept
    fit = Fit.TIGHT if needed <= MOST_OF_ALL * available.total else Fit.TOO_LARGE
    words = {
        Fit.TIGHT: tr(
            "Tight: even in {precision} it needs {needed}, and {free} are free. Close other "
            "programs first."
        ),
        Fit.TOO_LARGE: tr(
            "Doesn't fit: even in {precision} it needs {needed}, and {free} of {total} are free."
        ),
    }
    said = words[fit].format(
        precision=precision_name(way.precision),
        needed=format_bytes(needed),
        free=format_bytes(available.free),
        total=format_bytes(available.total),
    )
    return Verdict(fit, way if fit is Fit.TIGHT else None, context, said)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The most exact precision that fits; `tokens_s` is 0 while this machine's speed is unknown."""

    fit: Fit
    precision: str = ""
    num_bytes: int = 0
    tokens_s: float = 0.0

    def words(self, found: Repository) -> str:
        needed = tr("about {size} of memory in {precision}").format(
            size=format_bytes(self.num_bytes), precision=self.precision
        )
        speed = tr("about {speed}").format(speed=format_speed(self.tokens_s))
        parts = (
            short_count(found.parameters) if found.parameters else "",
            needed if self.precision else fit_name(self.fit),
            speed if self.tokens_s else "",
            found.licence,
        )
        return BETWEEN.join(part for part in parts if part)


def estimate(found: Repository, available: Memory, speeds: Sequence[Speed]) -> Estimate:
    fit = fit_of(needs(found.parameters), available)
    if fit is not Fit.FITS:
        return Estimate(fit)
    # Where float32 is faster than bfloat16, it is tried first.
    exact = {"float32": 4.0} if speeds and speeds[0].precision == "float32" else {}
    sizes = {
        precision: int(found.parameters * each) + ROOM_BYTES
        for precision, each in {**exact, **BYTES_PER_PARAMETER}.items()
    }
    precision = next(each for each, size in sizes.items() if size <= available.free)
    billions = active_parameters(found) / 10**9
    step_s = next((billions * each.step_s for each in speeds if each.precision == precision), 0.0)
    return Estimate(fit, precision, sizes[precision], 1 / step_s if step_s else 0.0)


def suited_models(
    found: Sequence[Repository], available: Memory, speeds: Sequence[Speed]
) -> list[Repository]:
    """The largest that fit and reply fast enough, else the smallest that fits; none while this
    machine's speed is unknown."""
    if not speeds:
        return []
    estimates = [(each, estimate(each, available, speeds)) for each in found]
    fitting = [(each, how) for each, how in estimates if how.fit is Fit.FITS]
    fast = [each for each, how in fitting if not 0 < how.tokens_s < SLOWEST_TOKENS_S]
    if not fast:
        return [each for each, _ in fitting][:1]
    return sorted(fast, key=lambda each: -each.parameters)[:MOST_SUGGESTED]


def active_parameters(found: Repository) -> float:
    """Counts only experts that the name calls active."""
    active = _ACTIVE.search(found.name)
    return float(active[1]) * 10**9 if active else found.parameters
