"""The command line of a replay, and the settings it means."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from core.api.params import (
    CacheSettings,
    DraftMode,
    DraftSettings,
    ModelSettings,
    Precision,
    Probe,
)


def model_settings(options: argparse.Namespace, data: Path) -> ModelSettings:
    """Replay shows pictures at the processor's own limit."""
    return ModelSettings(
        path=str(Path(options.model).resolve()),
        device=options.device,
        precision=options.dtype,
        context_length=options.context,
        max_image_tokens=0,
        grid=options.grid,
        cache_folder=None if options.no_cache else str((data / "contexts").resolve()),
        # In a folder that goes with the run nobody would read them.
        weights_bytes=0 if options.data is None else None,
    )


def cache_settings(options: argparse.Namespace) -> CacheSettings:
    """What the cache may keep at first; replay always restores, never reads again for speed."""
    return CacheSettings(
        count=options.checkpoints,
        interval=options.interval,
        host_bytes=options.host_bytes,
        device_bytes=options.device_bytes,
        disk_bytes=options.disk_bytes,
        restore="always",
    )


def draft_settings(options: argparse.Namespace) -> DraftSettings:
    return DraftSettings(mode=options.draft, tokens=options.draft_tokens)


def probe_settings(options: argparse.Namespace) -> Probe:
    return Probe(draft_noise=options.draft_noise, skip_rollback=options.skip_rollback)


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; argparse ends the process with exit code 2 when it doesn't fit."""
    parser = argparse.ArgumentParser(
        prog="python -m core.replay", description="Play a conversation script."
    )
    parser.add_argument("script", type=Path)
    parser.add_argument("--model", required=True, help="model folder")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--dtype", choices=get_args(Precision), default="auto")
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
