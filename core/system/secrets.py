"""Keys and tokens in the system's keyring, or in memory where there is none.

A keyring may wait for the user, or never answer, so a thread asks, with a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")

SERVICE = "Waymark"
# Time to type the keyring's password.
PATIENCE_S = 60.0


class Secrets:
    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._asking = asyncio.Lock()

    async def read(self, name: str) -> str:
        """'' if there is none, or the keyring can't be opened."""
        if name not in self._known and (found := await self._ask(partial(_read, name))):
            self._known.setdefault(name, found)
        return self._known.get(name, "")

    async def write(self, name: str, secret: str) -> bool:
        """'' deletes it. False if it will be forgotten when the app ends."""
        self._known[name] = secret
        return bool(await self._ask(partial(_write, name, secret)))

    async def _ask(self, work: Callable[[], T]) -> T | None:
        loop = asyncio.get_running_loop()
        async with self._asking:
            # A backend may come from another package and raise anything.
            with contextlib.suppress(Exception):
                return await asyncio.wait_for(loop.run_in_executor(None, work), PATIENCE_S)
        return None


def _read(name: str) -> str | None:
    # Imported late: few sessions need it, and it looks for backends.
    import keyring

    return keyring.get_password(SERVICE, name)


def _write(name: str, secret: str) -> bool:
    import keyring
    from keyring.errors import PasswordDeleteError

    if secret:
        keyring.set_password(SERVICE, name, secret)
    else:
        with contextlib.suppress(PasswordDeleteError):  # there was none
            keyring.delete_password(SERVICE, name)
    # A backend that keeps nothing raises nothing.
    return (keyring.get_password(SERVICE, name) or "") == secret
