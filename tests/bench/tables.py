"""The benches' tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.bench import lengths, yardstick
from tests.bench.rig import Reading

MIB = 2**20


def print_lengths(rows: Sequence[lengths.Row]) -> None:
    print(
        "Time to first token, as a share of a cold read of the same prompt "
        "(tokens read in brackets):\n"
    )
    print("| context | cold | " + " | ".join(lengths.SCENARIOS) + " |")
    print("|---" * (len(lengths.SCENARIOS) + 2) + "|")
    for row in rows:
        cells = [f"{row.length:,}", f"{row.cold['append'].seconds:.2f} s"]
        for scenario in lengths.SCENARIOS:
            warm = row.seconds(scenario, lambda reading: reading.seconds)
            tokens = row.warm[scenario][-1].evaluated
            mark = "" if scenario in row.cold else "~"
            cells.append(f"{mark}{_percent(warm / row.cold_of(scenario).seconds)} ({tokens})")
        print("| " + " | ".join(cells) + " |")
    print(
        "\n`~`: beside the cold read of the append turn at the same length, not of the same "
        "prompt. Where a prompt was read cold, the logits were compared and are equal to the "
        f"bit. Swiping back to an earlier reply read {sum(row.swipe_back for row in rows)} "
        "tokens beyond the new message.\n"
    )


def print_append(rows: Sequence[lengths.Row]) -> None:
    first = rows[0]
    parts: tuple[tuple[str, Callable[[Reading], float]], ...] = (
        ("first token", lambda reading: reading.seconds),
        ("attention", lambda reading: reading.attention),
        ("all but attention", lambda reading: reading.beside_attention),
        ("model", lambda reading: reading.model),
        ("restore", lambda reading: reading.restore),
        ("render", lambda reading: reading.render),
        ("outside model and restore", lambda reading: reading.overhead),
    )
    print("The append turn in milliseconds, and against the shortest context:\n")
    print(
        "| context | " + " | ".join(name for name, _ in parts) + " | first token x | all but "
        "attention x | regenerate, ms |"
    )
    print("|---" * (len(parts) + 4) + "|")
    for row in rows:
        cells = [f"{row.length:,}"]
        cells += [f"{1000 * row.seconds('append', of):.1f}" for _, of in parts]
        for _, of in (parts[0], parts[2]):
            cells.append(f"{row.seconds('append', of) / first.seconds('append', of):.2f}")
        cells.append(f"{1000 * row.seconds('regenerate', parts[0][1]):.1f}")
        print("| " + " | ".join(cells) + " |")
    print()


def print_kept(rows: Sequence[lengths.Row]) -> None:
    print("Saving and restoring:\n")
    print("| context | written | write | from disk | from the KV buffer | keep a checkpoint |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        disk = row.seconds("reopened from disk", lambda reading: reading.restore)
        kv_buffer = row.seconds("append", lambda reading: reading.restore)
        print(
            f"| {row.length:,} | {row.written_bytes / MIB:,.1f} MiB | {row.write_s:.2f} s "
            f"| {disk:.3f} s | {1000 * kv_buffer:.2f} ms | {1000 * row.keep_s:.2f} ms |"
        )
    print()


def print_turns(title: str, turns: Sequence[yardstick.Turn]) -> None:
    print(f"{title}:\n")
    print("| | prompt | new message | read for the reply | reused | possible | read in idle time |")
    print("|---|---|---|---|---|---|---|")
    for turn in turns:
        print(
            f"| {turn.name} | {turn.prompt:,} | {turn.new} | {turn.evaluated} "
            f"| {turn.reused:.1f} % | {turn.possible:.1f} % | {turn.idle} |"
        )
    print()


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.01 else f"{100 * share:.2f} %"
