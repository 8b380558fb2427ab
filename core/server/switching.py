"""The engine of a server without a window: its model makes way for one that a request names, and
sleeps after idle time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

from core.api.commands import Answered, Last_co
from core.api.errors import WaymarkError
from core.api.model_info import ModelInfo
from core.api.params import ModelSettings
from core.client.client import EngineClient
from core.client.requests import Request
from core.server.turns import Turns


class SwitchingEngine:
    """`settings` are the first model's, and the others get them. `models` are paths by the names
    that requests may use."""

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

    async def use(self, name: str = "") -> None:
        """The last model answers if none has the name. Raises WaymarkError."""
        # A load goes on if the client that caused it has gone: the next one may want the model.
        await asyncio.shield(asyncio.ensure_future(self._use(name)))

    async def _use(self, name: str) -> None:
        async with self._loading:
            path = self._models.get(name)
            settings = self._settings
            if path is not None:
                settings = settings.model_copy(update={"path": str(path)})
            before = self.model
            if settings == self._settings and before is not None and not self.asleep:
                return
            try:
                await self._client.load(settings)
            except WaymarkError:
                if self._client.model is None:
                    self._asleep = before
                raise
            self._settings, self._asleep = settings, None

    async def sleep_when_idle(self, turns: Turns, idle_s: float) -> None:
        """Frees the model's memory whenever nothing was asked for `idle_s`. Runs until it is
        cancelled."""
        while True:
            await asyncio.sleep(max(idle_s - self._client.idle_s, 0.01))
            if self.asleep or self._client.idle_s < idle_s:
                continue
            with contextlib.suppress(WaymarkError):
                # Requests that come meanwhile wait, and wake it.
                async with turns.turn(""):
                    await self._sleep()

    async def _sleep(self) -> None:
        async with self._loading:
            if (model := self._client.model) is not None:
                await self._client.unload()
                self._asleep = model
