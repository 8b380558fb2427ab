"""The window's side of the process that reads headers and runs for one survey."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from core.api.errors import EngineDiedError, ProtocolError, WaymarkError
from core.client.blobs import read_regular
from core.client.programs import program
from core.client.requests import EngineError
from core.client.transport import Transport
from core.library.messages import (
    EVENTS,
    MOVES,
    Describe,
    Described,
    Device,
    LibraryEvent,
    ModelFacts,
    Move,
    Moved,
    Moving,
    Reading,
)
from core.system.private_files import write_whole

# A damaged file ends the process; with more of them than this something else is wrong.
MOST_ENDINGS = 8
STOP_PATIENCE_S = 4.0


def _unreadable(path: str) -> ModelFacts:
    words = "The process that reads its headers crashed."
    error = EngineDiedError(words, "This model's files can't be read")
    return ModelFacts(path=path, trouble=error.info())


class LibraryClient:
    def __init__(
        self,
        heard: Callable[[Described | Device], None],
        cache: Path,
        contexts: Path,
        command: Sequence[str] | None = None,
    ) -> None:
        self._heard, self._cache, self._contexts = heard, cache, contexts
        self._command = command or program("core.library")
        # Moves that have not ended, for the next start.
        self._journal = cache.with_name("moves.json")

    async def describe(self, paths: Sequence[str], *, again: bool = False) -> None:
        """Cancelling ends the process. `again` uses nothing remembered, and measures this machine
        once more.

        Raises EngineDiedError if the process can't start, or ends again and again.
        """
        # A name that isn't text can't be sent.
        left = [path for path in paths if path == path.encode(errors="replace").decode()]
        for path in set(paths).difference(left):
            self._heard(Described(models=(_unreadable(path),)))
        for _ in range(MOST_ENDINGS):
            blamed = await self._survey(left, again)
            if blamed is None:
                return
            self._heard(Described(models=(_unreadable(blamed),)))
            left.remove(blamed)
        raise EngineDiedError("The process that reads models ended several times.")

    async def _survey(self, left: list[str], again: bool) -> str | None:
        """Run a process; models that it described leave `left`. Returns the model at which it
        ended, None if it is done."""
        process = await self._start()
        reading = ""
        try:
            asked = Describe(
                paths=tuple(left), cache=str(self._cache), contexts=str(self._contexts), again=again
            )
            await process.send(asked)
            while (event := await process.receive()) is not None:
                if isinstance(event, Reading):
                    reading = event.path
                    continue
                if isinstance(event, Moving | Moved):
                    raise ProtocolError("It reports a move.")
                if isinstance(event, Described):
                    done = {each.path for each in event.models}
                    left[:] = [path for path in left if path not in done]
                self._heard(event)
        except (EngineDiedError, ProtocolError):
            pass
        finally:
            process.kill()
            await process.stop(STOP_PATIENCE_S)
        if not left:
            return None
        if reading not in left:
            raise EngineDiedError("The process that reads models ended.")
        return reading

    async def move(self, move: Move, tell: Callable[[int, int], None], stop: asyncio.Event) -> None:
        """Raises WaymarkError; RequestCancelled if `stop` came in time."""
        self._note((*self._unended(), move))
        try:
            await self._move(move, tell, stop)
        except WaymarkError:
            await self.tidy()
            raise

    async def tidy(self) -> None:
        """Remove what killed moves left, on disks that are there."""
        for move in self._unended():
            with contextlib.suppress(WaymarkError):
                tidying = move.model_copy(update={"tidy": True})
                await self._move(tidying, lambda done, total: None, asyncio.Event())

    async def _move(
        self, move: Move, tell: Callable[[int, int], None], stop: asyncio.Event
    ) -> None:
        process = await self._start()
        stopping = asyncio.ensure_future(stop.wait())
        stopping.add_done_callback(lambda _: process.close_input())
        try:
            await process.send(move)
            while (event := await process.receive()) is not None:
                if isinstance(event, Moving):
                    tell(event.done, event.total)
                elif isinstance(event, Moved):
                    if event.error is not None:
                        raise EngineError(event.error)
                    ended = move.model_copy(update={"tidy": False})
                    self._note(tuple(each for each in self._unended() if each != ended))
                    return
            raise EngineDiedError("The process that moves models ended. The model is complete.")
        finally:
            stopping.cancel()
            await process.stop(STOP_PATIENCE_S)

    def _unended(self) -> tuple[Move, ...]:
        with contextlib.suppress(OSError, ValueError, WaymarkError):
            return MOVES.validate_json(read_regular(self._journal))
        return ()

    def _note(self, moves: tuple[Move, ...]) -> None:
        with contextlib.suppress(OSError):  # a move doesn't need it
            write_whole(self._journal, MOVES.dump_json(moves))

    async def _start(self) -> Transport[LibraryEvent]:
        failed = "The process that reads models could not be started: {}."
        return await Transport.spawn(self._command, None, EVENTS, failed=failed)
