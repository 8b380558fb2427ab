"""Measures what was packed beside its sources, in turns: the window's start, and replies.

    PYTHONPATH=. python packaging/installers/linux/measure.py [--rounds 7]

The window's start is from the program's start to a window on a screen of its own (Xvfb), with
nothing of either in the system's memory (as far as it lets go of it), then again at once. Run it in
`make test`'s environment, after `make installer`, on a machine that does nothing else. Replies are
those of a model of random weights, which goes on for as long as it may; the packed engine is kept
from compiling, as where there is no compiler.
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
from typing import Any

from session import Screen, screen

from tests.oracle.checkpoints import Tiny, write_folder

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "installers"
BUNDLE = BUILD / "bundle" / "waymark"
# 60 million weights: most of a step goes by what memory gives, as with a model that people use.
MODEL = Tiny(
    "LLLFLLLF", 768, 2304, 8, 2, 96, key_heads=8, key_dim=96, value_heads=8, value_dim=96,
    text_only=True,
)  # fmt: skip
REPLIES, TOKENS = 3, 256
PACKED = [str(BUNDLE / "waymark")]
BARE = {"CC": "none"}
PLAIN = [sys.executable, "-m", "desktop"]


def main() -> None:
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
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_folder(folder / "model", MODEL)
        (folder / "script.json").write_text(json.dumps(script()))
        for precision in ("float32", "bfloat16", "int8", "int4"):
            pairs = paired(
                partial(tokens_per_s, BARE, [str(BUNDLE / "waymark-engine")], folder, precision),
                partial(tokens_per_s, {}, [sys.executable, "-m", "core"], folder, precision),
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
    """Print the medians of both, and of the ratios of pairs."""
    packed, plain = (median(each) for each in zip(*pairs, strict=True))
    ratios = sorted(there / here for there, here in pairs)
    print(
        f"{what}: {packed:.2f}, from sources {plain:.2f}, ratio {median(ratios):.3f}"
        f" ({ratios[0]:.3f} to {ratios[-1]:.3f})",
        flush=True,
    )


def window_s(shown: Screen, command: list[str], forgotten: Path | None) -> float:
    if forgotten is not None:
        forget(forgotten.rglob("*"))
    with tempfile.TemporaryDirectory() as data:
        begin = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--data", data], cwd=ROOT, env=shown.environment(), stderr=subprocess.DEVNULL
        )
        while not seen(shown):
            if process.poll() is not None:
                sys.exit(f"{command[0]} ended with {process.returncode} before it was seen.")
            time.sleep(0.01)
        found = time.perf_counter() - begin
        process.terminate()
        process.wait()
    return found


def seen(shown: Screen) -> bool:
    with suppress(subprocess.CalledProcessError):
        return bool(shown("search", "--onlyvisible", "--name", "^Waymark$"))
    return False


def forget(paths: Iterable[Path]) -> None:
    """Have the system drop what it holds of these files."""
    for path in paths:
        if path.is_file() and not path.is_symlink():
            with suppress(OSError), path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def script() -> dict[str, Any]:
    asked = {"op": "send", "chat": "a", "content": "Go on."}
    again = [{"op": "regenerate", "chat": "a"}] * (REPLIES - 1)
    return {"sampling": {"temperature": 1, "max_tokens": TOKENS}, "steps": [asked, *again]}


def tokens_per_s(told: dict[str, str], command: list[str], folder: Path, precision: str) -> float:
    options = ["--model", str(folder / "model"), "--context", "1024", "--device", "cpu"]
    words = [*command, "core.replay", str(folder / "script.json"), *options, "--dtype", precision]
    said = subprocess.check_output(words, cwd=ROOT, env={**os.environ, **told}, text=True)
    lines = [json.loads(line) for line in said.splitlines()]
    return float(median(line["decode_tokens_per_s"] for line in lines))


def size(folder: Path) -> float:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


if __name__ == "__main__":
    main()
