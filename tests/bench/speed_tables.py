"""The table of the whole model in Markdown, one a precision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tests.bench.rounds import Row, Step
from tests.bench.spread import Spread

MIB = 2**20
PEER = "transformers"


def table(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join([*_header(*titles), *(_line(*cells) for cells in lines)]) + "\n"


def model_table(
    rows: Mapping[Step, Row],
    engine: str,
    beside: Mapping[str, Mapping[Step, Spread]] | None = None,
    rates: bool = False,
) -> str:
    """The measurements of one precision beside transformers and further engines. `beside` are
    tokens a second by step, measured right after it. `rates` adds bytes moved or operations a
    second."""
    beside = beside or {}
    others = [name for name in engines(rows) if name.startswith(f"{PEER} ")]
    titles = ["", "Waymark", PEER, "ratio", "of the limit"]
    if rates:
        titles.append("a second")
    for name in (*others, *beside):
        titles += [name, "ratio"]
    lines = _header(*titles)
    steps = sorted(rows, key=order)
    timed = [rows[step] for step in steps if step.task != "context"]
    for row in timed:
        cells = _speed_cells(row, engine, rates)
        for name in others:
            cells += _pair(row, engine, name)
        for each in beside.values():
            cells += _llama_cells(row, engine, each.get(row.step))
        lines.append(_line(*cells))
    for row in (each for each in rows.values() if _held(each, engine)):
        cells = _memory_cells(row, engine)
        lines.append(_line(*cells, *[""] * (len(titles) - len(cells))))
    return "\n".join(lines) + "\n"


def _speed_cells(row: Row, engine: str, rates: bool) -> list[str]:
    limit = "" if row.step.task == "load" else str(row.of_limit(engine))
    cells = [_name(row.step), str(_value(row, engine)), *_pair(row, engine, PEER), limit]
    return [*cells, _rate(row, engine)] if rates else cells


def _name(step: Step) -> str:
    match step.task:
        case "prompt" | "generate":
            return _rate_name(step)
        case "load":
            return "load, s"
        case _:
            return f"{step.size:,} px, ms"


def _value(row: Row, engine: str) -> Spread:
    """Tokens a second, or how long it took."""
    if row.step.task in ("prompt", "generate"):
        return row.per_second(engine)
    return Spread.of(row.seconds(engine)).scaled(1 if row.step.task == "load" else 1000)


def _pair(row: Row, engine: str, other: str) -> list[str]:
    """Another engine's value in the same rounds, and the ratio to it."""
    faster = row.step.task in ("prompt", "generate")
    ratio = row.times(other, engine) if faster else row.times(engine, other)
    return [str(_value(row, other)), str(ratio)]


def engines(rows: Mapping[Step, Row]) -> Iterable[str]:
    return next((row.readings for row in rows.values()), ())


def _rate(row: Row, engine: str) -> str:
    if row.step.task == "load":
        return ""
    if row.step.task == "generate":
        return f"{row.rate(engine).scaled(1e-9)} GB/s"
    return f"{row.rate(engine).scaled(1e-12)} TFLOP/s"


def _llama_cells(row: Row, engine: str, other: Spread | None) -> list[str]:
    if other is None:
        return ["", ""]
    return [str(other), f"{row.per_second(engine).middle / other.middle:.2f}"]


def _memory_cells(row: Row, engine: str) -> list[str]:
    own, other = row.peak_bytes(engine), row.peak_bytes(PEER)
    step, least = row.step, row.readings[engine][0].least_bytes
    after = f"{step.size:,} tokens" if step.task != "load" else "load"
    return [
        f"memory after {after}, MiB",
        f"{own / MIB:,.0f}",
        f"{other / MIB:,.0f}",
        f"{own / other:.2f}" if other else "",
        f"{own / least:.2f}" if least else "",
    ]


def _rate_name(step: Step) -> str:
    if step.task == "prompt":
        return f"prompt of {step.size:,}, tokens/s"
    return f"{step.size} tokens behind {step.context:,}, tokens/s"


def _held(row: Row, engine: str) -> bool:
    """True if the step's peak of memory is shown: a load, a prompt, a context that was read."""
    first = row.readings[engine][0]
    return row.step.task in ("load", "prompt") or (row.step.task == "context" and first.tokens > 0)


def order(step: Step) -> tuple[int, int, int]:
    tasks = ("prompt", "context", "generate", "image", "load")
    return tasks.index(step.task), step.context, step.size


def _header(*titles: str) -> list[str]:
    return [_line(*titles), "|---" * len(titles) + "|"]


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
