"""`python -m core.server --model DIR_OR_GGUF`, see docs/server.md. Exit code 1 if it fails."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import secrets
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import platformdirs
from pydantic import ValidationError

from core.api.commands import Answered, Last_co
from core.api.errors import InvalidRequestError, WaymarkError, first_fault
from core.api.model_info import ModelInfo
from core.api.params import CacheSettings, ModelSettings, Precision
from core.client.client import EngineClient
from core.client.lock import DataFolderLock
from core.client.programs import forbid_core_dumps, say_running
from core.client.requests import Request
from core.client.traces import report_uncaught
from core.library.places import models_of
from core.server import relayed
from core.server.access import Access, digest_of, origin_of
from core.server.activity import Activity
from core.server.answering import Answering
from core.server.application import application
from core.server.kept_replies import KeptReplies, delete
from core.server.listening import address_of, bound, serve
from core.server.relay import MODE
from core.server.requests.pictures import Pictures
from core.server.turns import Turns
from core.system.private_files import private_folder, write_whole

DEFAULT_PORT = 8484
_KEY_FILE = "server.key"
_SHORTEST_KEY = 8
_MOST_MINUTES = 60 * 24 * 365
LAN_WORDS = "Other machines can connect. Requests and replies are not encrypted on their way."


class SwitchingEngine:
    """All models get the first one's `settings`; `models` are paths by name."""

    def __init__(
        self, client: EngineClient, settings: ModelSettings, models: Mapping[str, Path]
    ) -> None:
        self._client, self._settings, self._models = client, settings, models
        self._asleep: ModelInfo | None = None
        self._loading = asyncio.Lock()

    @property
    def model(self) -> ModelInfo | None:
        return self._asleep or self._client.model

    @property
    def asleep(self) -> bool:
        return self._asleep is not None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._models)

    def ask(self, command: Answered[Last_co]) -> Request[Last_co]:
        return self._client.ask(command)

    async def use(self, name: str) -> None:
        """The last model answers if none has the name. Raises WaymarkError."""
        # A load goes on if the client that caused it has gone: the next one may want the model.
        await asyncio.shield(asyncio.ensure_future(self._use(name)))

    async def _use(self, name: str) -> None:
        async with self._loading:
            settings, before = self._settings, self.model
            if (path := self._models.get(name)) is not None:
                settings = settings.model_copy(update={"path": str(path)})
            if settings == self._settings and self._client.model is not None:
                return
            try:
                await self._client.load(settings)
            except WaymarkError:
                if self._client.model is None:
                    self._asleep = before
                raise
            self._settings, self._asleep = settings, None

    async def sleep_when_idle(self, turns: Turns, idle_s: float) -> None:
        """Free the model's memory whenever nothing was asked for `idle_s`."""
        while True:
            rested_s = 0.0 if self._client.model is None else self._client.idle_s
            await asyncio.sleep(max(idle_s - rested_s, 0.01))
            if self._client.idle_s < idle_s:
                continue
            with contextlib.suppress(WaymarkError):
                # Requests that come meanwhile wait, and wake it.
                async with turns.turn(""), self._loading:
                    model = self._client.model
                    # A request may have had the turn before.
                    if model is not None and self._client.idle_s >= idle_s:
                        await self._client.unload()
                        self._asleep = model


def parse_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m core.server", description="Serve a model to programs on this computer."
    )
    parser.add_argument("--model", required=True, help="model folder or GGUF file")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0: any free port")
    parser.add_argument("--key", help="the key that clients send (default: made once and kept)")
    parser.add_argument("--lan", action="store_true", help="let other machines connect")
    parser.add_argument(
        "--origin", action="append", default=[], help="address of a web page that may connect"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--dtype", choices=get_args(Precision), default="auto")
    parser.add_argument("--context", type=int, help="context length in tokens")
    parser.add_argument("--checkpoints", type=int, default=CacheSettings().count)
    parser.add_argument("--interval", type=int, default=CacheSettings().interval)
    parser.add_argument("--host-bytes", type=int, help="budget in host memory")
    parser.add_argument("--device-bytes", type=int, help="budget on the graphics card")
    parser.add_argument("--disk-bytes", type=int, help="budget on disk; 0 keeps nothing there")
    parser.add_argument(
        "--volatile-lines", choices=("steady", "keep"), default="steady",
        help="lines of system prompts that change with each request: keep them steady, or as sent",
    )  # fmt: skip
    parser.add_argument(
        "--models", type=Path, action="append", default=[], metavar="FOLDER",
        help="a request that names a model of this folder has it loaded in place of the other",
    )  # fmt: skip
    parser.add_argument(
        "--sleep", type=minutes, metavar="MINUTES",
        help="free the model's memory after so long without requests; the next one loads it again",
    )  # fmt: skip
    parser.add_argument("--data", type=Path, help="folder for the key, contexts and pictures")
    return parser.parse_args(arguments)


def minutes(text: str) -> float:
    number = float(text)
    if not 0 < number < _MOST_MINUTES:
        raise ValueError
    return number


def _named(model: ModelInfo, folders: list[Path]) -> dict[str, Path]:
    """The models that requests may name. Raises InvalidRequestError."""
    if not folders:
        return {}
    found = dict[str, Path]()
    for folder in folders:
        models = models_of(folder.resolve())
        if not models:
            raise InvalidRequestError(f"There is no model in {folder}.")
        found = {**{each.name: each.path for each in models}, **found}
    return {**found, model.name: Path(model.path)}


def data_folder(given: Path | None) -> Path:
    if given is not None:
        return given.resolve()
    if chosen := os.environ.get("WAYMARK_DATA"):
        return Path(chosen).expanduser().resolve() / "server"
    return platformdirs.user_data_path("waymark", appauthor=False) / "server"


def key_of(given: str | None, data: Path) -> str:
    """Make the folder's key at the first start. Raises InvalidRequestError."""
    place = ""
    if given is None:
        file = data / _KEY_FILE
        if not file.exists():
            write_whole(file, secrets.token_urlsafe(24).encode())
        given, place = file.read_text("ascii", "replace").strip(), f"{file}: "
    if len(given) < _SHORTEST_KEY or not (given.isascii() and given.isprintable()):
        raise InvalidRequestError(
            f"{place}A key has at least {_SHORTEST_KEY} letters, digits or signs of ASCII."
        )
    return given


def settings_of(options: argparse.Namespace, data: Path) -> tuple[ModelSettings, CacheSettings]:
    """Raises InvalidRequestError, which names the option."""
    try:
        model = ModelSettings(
            path=str(Path(options.model).resolve()),
            device=options.device,
            precision=options.dtype,
            context_length=options.context,
            cache_folder=str(data / "contexts"),
            measure_kernels=True,
        )
        cache = CacheSettings(
            count=options.checkpoints,
            interval=options.interval,
            host_bytes=options.host_bytes,
            device_bytes=options.device_bytes,
            disk_bytes=options.disk_bytes,
        )
    except ValidationError as error:
        raise InvalidRequestError(f"{': '.join(first_fault(error))}.") from None
    return model, cache


async def run(options: argparse.Namespace, data: Path) -> None:
    key = key_of(options.key, data)
    access = Access(digest_of(key), tuple(map(origin_of, options.origin)), options.lan)
    settings, cache = settings_of(options, data)
    pictures = Pictures(data / "pictures")
    with contextlib.closing(bound(options.port, options.lan)) as listening:
        private_folder(data / "logs")
        client = EngineClient(log_file=data / "logs" / "engine.log")
        try:
            await client.start()
            model = await client.load(settings)
            print(f"{model.name} is served at {address_of(listening)}/v1", flush=True)
            if options.key is None:
                print(f"Key: {key}", flush=True)
            if options.lan:
                print(LAN_WORDS, file=sys.stderr, flush=True)
            replies = data / "replies.db"
            if cache.disk_bytes == 0:
                delete(replies)
            kept = KeptReplies(replies if cache.disk_bytes != 0 else None)
            with contextlib.closing(kept):
                engine = SwitchingEngine(client, settings, _named(model, options.models))
                answering = Answering(engine, cache, kept, options.volatile_lines == "steady")
                app = application(answering, pictures, access, Activity())
                sleeping = None
                if options.sleep is not None:
                    napping = engine.sleep_when_idle(answering.turns, options.sleep * 60)
                    sleeping = asyncio.ensure_future(napping)
                try:
                    await serve(app, listening)
                finally:
                    if sleeping is not None:
                        sleeping.cancel()
        finally:
            await client.close()
            pictures.clear()


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if given == [MODE]:
        relayed.main()
    # Like Ctrl-C: contexts are written before the process ends.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    forbid_core_dumps()
    report_uncaught()
    say_running()
    options = parse_options(given)
    try:
        data = data_folder(options.data)
        lock = DataFolderLock(data)
        try:
            asyncio.run(run(options, data))
        finally:
            lock.release()
    except WaymarkError as error:
        print(f"{error.info().title}: {error.message}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"A file can't be used: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
