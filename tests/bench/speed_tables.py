"""The tables of the speed benches in Markdown: one a type for the ops, one a precision for the
whole model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tests.bench.op_rounds import Measured
from tests.bench.rounds import Row, Step
from tests.bench.spread import Spread

MIB = 2**20
PEER = "transformers"


def ops_table(measured: Sequence[Measured]) -> str:
    """An op a line."""
    lines = _header("op", "µs", "bound by", "of that limit", "times as fast as", "")
    for each in measured:
        micro = each.seconds.scaled(1e6)
        bound = "products" if each.op.operations else "reading"
        times = str(each.times) if each.times else ""
        lines.append(
            _line(each.op.name, str(micro), bound, str(each.of_limit), times, each.op.other_name)
        )
    return "\n".join(lines) + "\n"


def table(titles: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Any table."""
    return "\n".join([*_header(*titles), *(_line(*cells) for cells in lines)]) + "\n"


def model_table(
    rows: Mapping[Step, Row],
    engine: str,
    beside: Mapping[Step, Spread] | None = None,
    rates: bool = False,
) -> str:
    """Everything measured of one precision beside transformers; `beside` are llama-bench's tokens
    a second by step, None where it wasn't run. With `rates` a column says how much that moved or
    computed a second."""
    titles = ["", "Waymark", PEER, "ratio", "of the limit"]
    if rates:
        titles.append("a second")
    if beside is not None:
        titles += ["llama-bench", "ratio"]
    lines = _header(*titles)
    steps = sorted(rows, key=_order)
    timed = [rows[step] for step in steps if step.task != "context"]
    lines += [_line(*_speed_cells(row, engine, beside, rates)) for row in timed]
    for row in (each for each in rows.values() if _held(each, engine)):
        cells = _memory_cells(row, engine)
        lines.append(_line(*cells, *[""] * (len(titles) - len(cells))))
    return "\n".join(lines) + "\n"


def _speed_cells(
    row: Row, engine: str, beside: Mapping[Step, Spread] | None, rates: bool
) -> list[str]:
    step = row.step
    if step.task in ("prompt", "generate"):
        name, values = _rate_name(step), [row.per_second(each) for each in (engine, PEER)]
        ratio = row.times(PEER, engine)
    else:
        name, unit = ("load, s", 1) if step.task == "load" else (f"{step.size:,} px, ms", 1000)
        values = [Spread.of(row.seconds(each)).scaled(unit) for each in (engine, PEER)]
        ratio = row.times(engine, PEER)
    limit = "" if step.task == "load" else str(row.of_limit(engine))
    cells = [name, *map(str, values), str(ratio), limit]
    if rates:
        cells.append(_rate(row, engine))
    if beside is not None:
        cells += _llama_cells(values[0], beside.get(step))
    return cells


def _rate(row: Row, engine: str) -> str:
    """What is held against the limit, as the limit is told."""
    if row.step.task == "load":
        return ""
    if row.step.task == "generate":
        return f"{row.rate(engine).scaled(1e-9)} GB/s"
    return f"{row.rate(engine).scaled(1e-12)} TFLOP/s"


def _llama_cells(own: Spread, other: Spread | None) -> list[str]:
    return ["", ""] if other is None else [str(other), f"{own.middle / other.middle:.2f}"]


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
    """Whether the peak of memory after the step is told: a load, a prompt, a context that was
    really read then."""
    first = row.readings[engine][0]
    return row.step.task in ("load", "prompt") or (row.step.task == "context" and first.tokens > 0)


def _order(step: Step) -> tuple[int, int, int]:
    tasks = ("prompt", "context", "generate", "image", "load")
    return tasks.index(step.task), step.context, step.size


def _header(*titles: str) -> list[str]:
    return [_line(*titles), "|---" * len(titles) + "|"]


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
