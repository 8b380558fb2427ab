"""`python -m core.replay SCRIPT.json --model DIR`, see docs/replay.md. Exit code 1 if a step
failed, 2 for an invalid script or option."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from core.api.errors import InvalidRequestError, WaymarkError, first_fault
from core.api.params import CacheSettings, DraftMode, DraftSettings, ModelSettings, Precision, Probe
from core.client.lock import DataFolderLock
from core.replay.chats import read_script
from core.replay.player import Replay, Setup
from core.replay.steps import Script


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m core.replay", description="Play a conversation script."
    )
    parser.add_argument("script", type=Path)
    parser.add_argument("--model", required=True, help="model folder or GGUF file")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--dtype", "--precision", choices=get_args(Precision), default="auto")
    parser.add_argument("--checkpoints", type=int, default=CacheSettings().count)
    parser.add_argument("--interval", type=int, default=CacheSettings().interval)
    parser.add_argument("--host-bytes", type=int, help="budget in host memory")
    parser.add_argument("--device-bytes", type=int, help="budget on the graphics card")
    parser.add_argument("--disk-bytes", type=int, help="budget on disk; 0 keeps nothing there")
    parser.add_argument("--grid", type=int, default=512)
    parser.add_argument("--context", type=int, help="context length in tokens")
    parser.add_argument("--no-cache", action="store_true", help="start every step cold")
    parser.add_argument("--data", type=Path, help="data folder (default: a fresh temporary one)")
    parser.add_argument("--draft", choices=get_args(DraftMode), default="auto")
    parser.add_argument("--draft-tokens", type=int, help="a fixed length of drafts, 1 to 7")
    parser.add_argument("--draft-noise", type=float, default=0.0, help="share of tokens replaced")
    parser.add_argument("--skip-rollback", action="store_true", help="leave wrong tokens in place")
    parser.add_argument("--logits", help="safetensors file for each step's first logits")
    return parser.parse_args(arguments)


def setup_of(options: argparse.Namespace, data: Path) -> Setup:
    model = ModelSettings(
        path=str(Path(options.model).resolve()),
        device=options.device,
        precision=options.dtype,
        context_length=options.context,
        max_image_tokens=0,
        grid=options.grid,
        cache_folder=None if options.no_cache else str((data / "contexts").resolve()),
        # Nothing reads weights from a folder that is deleted after the run.
        weights_bytes=0 if options.data is None else None,
    )
    cache = CacheSettings(
        count=options.checkpoints,
        interval=options.interval,
        host_bytes=options.host_bytes,
        device_bytes=options.device_bytes,
        disk_bytes=options.disk_bytes,
        restore="always",
    )
    return Setup(
        data=data,
        model=model,
        cache=cache,
        draft=DraftSettings(mode=options.draft, tokens=options.draft_tokens),
        probe=Probe(draft_noise=options.draft_noise, skip_rollback=options.skip_rollback),
        no_cache=options.no_cache,
        logits=Path(options.logits) if options.logits else None,
    )


def _replay(script: Script, options: argparse.Namespace, data: Path) -> int:
    lock = DataFolderLock(data)
    try:
        replay = Replay(script, options.script.resolve().parent, setup_of(options, data))
        return 0 if asyncio.run(replay.run()) else 1
    finally:
        lock.release()


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    try:
        script = read_script(options.script)
        setup_of(options, Path())
    except InvalidRequestError as error:
        print(error.message, file=sys.stderr)
        return 2
    except ValidationError as error:
        print(": ".join(first_fault(error)), file=sys.stderr)
        return 2
    try:
        if options.data is not None:
            return _replay(script, options, options.data.resolve())
        with tempfile.TemporaryDirectory(prefix="waymark-replay-") as folder:
            return _replay(script, options, Path(folder))
    except WaymarkError as error:
        print(f"{error.info().title}: {error.message}", file=sys.stderr)
    except OSError as error:
        print(f"A file can't be written: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
