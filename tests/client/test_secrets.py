"""Secrets are in the keyring or in memory, and a keyring that fails costs nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null
from keyring.errors import KeyringLocked, PasswordDeleteError

from core.system import secrets
from core.system.secrets import SERVICE, Secrets


class MemoryKeyring(KeyringBackend):
    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}
        self.reads = 0
        self.locked = False
        self.open = threading.Event()
        self.open.set()

    def get_password(self, service: str, username: str) -> str | None:
        self.reads += 1
        self.open.wait(20)
        if self.locked:
            raise KeyringLocked("dismissed")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.locked:
            raise KeyringLocked("dismissed")
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.locked:
            raise KeyringLocked("dismissed")
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError


@pytest.fixture
def backend() -> Iterator[MemoryKeyring]:
    before = keyring.get_keyring()
    backend = MemoryKeyring()
    keyring.set_keyring(backend)
    yield backend
    backend.open.set()
    keyring.set_keyring(before)


async def kept_over_a_restart(backend: MemoryKeyring) -> None:
    assert await Secrets().write("server https://host", "key")
    assert backend.kept == {(SERVICE, "server https://host"): "key"}
    again = Secrets()
    assert [await again.read("server https://host") for _ in range(3)] == ["key"] * 3
    # One read after the write, one by the second session.
    assert backend.reads == 2
    assert await again.write("server https://host", "")
    assert await again.write("server https://host", "")
    assert await Secrets().read("server https://host") == ""


def test_a_secret_is_kept_over_a_restart_and_deleted(backend: MemoryKeyring) -> None:
    asyncio.run(kept_over_a_restart(backend))


@pytest.mark.parametrize("kind", ["none", "null", "locked"])
def test_without_a_keyring_a_secret_lasts_for_the_session(
    kind: str, backend: MemoryKeyring
) -> None:
    backend.locked = kind == "locked"
    if kind != "locked":
        kept = fail.Keyring if kind == "none" else null.Keyring
        keyring.set_keyring(kept())

    async def session() -> None:
        secrets = Secrets()
        assert not await secrets.write("token", "abc")
        assert await secrets.read("token") == "abc"
        assert await Secrets().read("token") == ""

    asyncio.run(session())


def test_a_keyring_that_never_answers_is_given_up(
    backend: MemoryKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "PATIENCE_S", 0.05)
    backend.open.clear()

    async def session() -> None:
        mine = Secrets()
        assert await mine.read("token") == ""
        backend.open.set()
        monkeypatch.undo()
        assert await mine.write("token", "abc")

    asyncio.run(session())
