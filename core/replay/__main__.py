"""`python -m core.replay SCRIPT`: reads the command line, plays the script, says how it ended."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from pydantic import ValidationError

from core.api.errors import InvalidRequestError, WaymarkError
from core.client.lock import DataFolderLock
from core.replay.format import read_script
from core.replay.options import cache_settings, model_settings, parse_options
from core.replay.player import Replay
from core.replay.steps import Script


def _replay(script: Script, options: argparse.Namespace, data: Path) -> int:
    lock = DataFolderLock(data)
    try:
        replay = Replay(script, options.script.resolve().parent, data, options)
        return 0 if asyncio.run(replay.run()) else 1
    finally:
        lock.release()


def main(arguments: list[str] | None = None) -> int:
    """Run a replay from the command line and return its exit code."""
    options = parse_options(arguments)
    try:
        script = read_script(options.script)
        cache_settings(options)
        model_settings(options, Path())
    except InvalidRequestError as error:
        print(error.message, file=sys.stderr)
        return 2
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        print(f"{first['loc'][0]}: {first['msg']}", file=sys.stderr)
        return 2
    try:
        if options.data is not None:
            return _replay(script, options, options.data.resolve())
        with tempfile.TemporaryDirectory(prefix="waymark-replay-") as folder:
            return _replay(script, options, Path(folder))
    except WaymarkError as error:
        print(f"{error.title}: {error.message}", file=sys.stderr)
    except OSError as error:
        print(f"A file can't be written: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
