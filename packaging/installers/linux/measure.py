"""Measures what was packed beside its sources, in turns: the window's start, and replies.

    python packaging/installers/linux/measure.py [--rounds 7]

The window's start is from the program's start to a window on a screen of its own (Xvfb), with
nothing of either in the system's memory (as far as it lets go of it), then again at once. Run it in
`make run`'s environment, after `make installer`, on a machine that does nothing else. The packed
engine is kept from compiling, as where there is no compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median

from try_installed import Screen, screen

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "installers"
BUNDLE = BUILD / "bundle" / "waymark"
SCRIPT = ROOT / "tests" / "bench" / "five_turns.json"
DEMO = ROOT / "resources" / "models" / "demo"
PACKED = [str(BUNDLE / "waymark")]
PLAIN = [sys.executable, "-m", "desktop"]


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    print(f"installed: {size(BUNDLE):.0f} MB; ", end="")
    packages = sorted([*BUILD.glob("*.deb"), *BUILD.glob("*.tar.zst")])
    print(", ".join(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB" for path in packages))
    with screen(None) as shown:
        for named, forgotten in (("cold", (BUNDLE, Path(sys.prefix))), ("warm", (None, None))):
            packed, plain = forgotten
            pairs = paired(
                partial(window_s, shown, PACKED, packed),
                partial(window_s, shown, PLAIN, plain),
                rounds,
            )
            report(f"window, {named}, seconds", pairs)
    for precision in ("float32", "bfloat16", "int8"):
        pairs = paired(
            partial(tokens_per_s, [str(BUNDLE / "waymark-engine")], precision, {"CC": "none"}),
            partial(tokens_per_s, [sys.executable, "-m", "core"], precision, {}),
            rounds,
        )
        report(f"replies, {precision}, tokens a second", pairs)


def paired(
    packed: Callable[[], float], plain: Callable[[], float], rounds: int
) -> list[tuple[float, float]]:
    """Both, in turns, each as often first; a round before is for caches."""
    found = []
    for number in range(rounds + 1):
        if number % 2:
            there, here = packed(), plain()
        else:
            here, there = plain(), packed()
        found.append((there, here))
    return found[1:]


def report(what: str, pairs: Sequence[tuple[float, float]]) -> None:
    """The medians of both, and of what each pair's ratio is."""
    packed, plain = (median(each) for each in zip(*pairs, strict=True))
    ratios = sorted(there / here for there, here in pairs)
    print(
        f"{what}: {packed:.2f}, from sources {plain:.2f}, ratio {median(ratios):.3f}"
        f" ({ratios[0]:.3f} to {ratios[-1]:.3f})",
        flush=True,
    )


def window_s(shown: Screen, command: list[str], forgotten: Path | None) -> float:
    """How long until a window is seen."""
    if forgotten is not None:
        forget(forgotten.rglob("*"))
    with tempfile.TemporaryDirectory() as data:
        begin = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--data", data], cwd=ROOT, env=shown.environment(), stderr=subprocess.DEVNULL
        )
        shown("search", "--sync", "--onlyvisible", "--name", "^Waymark$")
        found = time.perf_counter() - begin
        process.terminate()
        process.wait()
    return found


def forget(paths: Iterable[Path]) -> None:
    """Have the system drop what it holds of these files."""
    for path in paths:
        if path.is_file() and not path.is_symlink():
            with suppress(OSError), path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def tokens_per_s(command: list[str], precision: str, told: dict[str, str]) -> float:
    """The median of a replay's replies."""
    options = ["--model", str(DEMO), "--context", "1024", "--dtype", precision, "--device", "cpu"]
    words = [*command, "core.replay", str(SCRIPT), *options]
    said = subprocess.check_output(words, cwd=ROOT, env={**os.environ, **told}, text=True)
    lines = [json.loads(line) for line in said.splitlines()]
    return float(
        median(line["decode_tokens_per_s"] for line in lines if line["decode_tokens_per_s"])
    )


def size(folder: Path) -> float:
    """In millions of bytes."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


if __name__ == "__main__":
    main()
