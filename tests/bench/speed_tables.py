"""The tables of the speed benches in Markdown: one a type for the ops, one a precision for the
whole model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def model_table(
    rows: Mapping[Step, Row], engine: str, beside: Mapping[Step, Spread] | None = None
) -> str:
    """Everything measured of one precision beside transformers; `beside` are llama-bench's tokens
    a second by step, None where it wasn't run."""
    titles = ["", "Waymark", PEER, "ratio", "of the limit"]
    if beside is not None:
        titles += ["llama-bench", "ratio"]
    lines = _header(*titles)
    steps = sorted(rows, key=_order)
    lines += [_speed_line(rows[step], engine, beside) for step in steps if step.task != "context"]
    for row in (each for each in rows.values() if _held(each, engine)):
        cells = _memory_cells(row, engine)
        lines.append(_line(*cells, *[""] * (len(titles) - len(cells))))
    return "\n".join(lines) + "\n"


def _speed_line(row: Row, engine: str, beside: Mapping[Step, Spread] | None) -> str:
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
    if beside is not None:
        cells += _llama_cells(values[0], beside.get(step))
    return _line(*cells)


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
