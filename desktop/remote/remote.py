"""The servers that the user added: their keys, their models, and replies from them."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from core.api.commands import Generate
from core.api.errors import RemoteKeyError, RemoteUnreachableError, WaymarkError
from core.api.events import Finished
from core.client.requests import Request
from core.remote.client import RemoteClient
from core.remote.connection import host_of, normalised
from core.remote.messages import KIND_NAMES, Place, RemoteServer
from core.system.secrets import Secrets
from desktop.engine.tasks import Tasks
from desktop.i18n import tr
from desktop.settings.settings import SettingsController
from desktop.store.folders import Folders
from desktop.store.settings import RemoteSettings


class ForbiddenError(WaymarkError, title="The network is forbidden"): ...


class RemoteController(QObject):
    # A server was added, removed or has other models.
    changed = Signal()
    # str: the key of the server at this address has to be entered again.
    key_wanted = Signal(str)

    def __init__(
        self,
        tasks: Tasks,
        settings: SettingsController,
        secrets: Secrets,
        folders: Folders,
        client: RemoteClient | None = None,
    ) -> None:
        super().__init__()
        self._tasks, self._settings, self._secrets = tasks, settings, secrets
        self._client = client or RemoteClient(folders.engine_log.with_name("remote.log"))
        settings.changed.connect(self._follow_switch)

    @property
    def settings(self) -> RemoteSettings:
        return self._settings.settings.remote

    @property
    def new_chats(self) -> Place | None:
        """The place of chats that begin; None is this computer."""
        place = self.settings.new_chats
        return place if place and self.settings.server(place.address) else None

    def place_new_chats(self, place: Place | None) -> None:
        self._put(self.settings.model_copy(update={"new_chats": place}))

    async def ask(self, command: Generate, place: Place) -> Request[Finished]:
        """Have the reply written at this place. Raises WaymarkError."""
        server = self.settings.server(place.address)
        if server is None:
            raise RemoteUnreachableError(
                tr("{host} was removed. Add it again, or choose another model.").format(
                    host=host_of(place.address)
                ),
            )
        self._check_allowed()
        key = await self._secrets.read(_name(server.address)) if server.keyed else ""
        if server.keyed and not key:
            self.key_wanted.emit(server.address)
            raise RemoteKeyError(
                tr("The key of {host} isn't stored. Enter it, then send again.").format(
                    host=host_of(server.address)
                ),
                tr("A key is needed"),
            )
        # The keyring may have taken a minute.
        self._check_allowed()
        return self._client.ask(command, server, place.model, key, self._proxy)

    async def add(self, address: str, key: str) -> tuple[RemoteServer, bool]:
        """Add a server, or read its models again, with the key that it had if none is given.

        Returns False with it if the key lasts until the app ends. Raises WaymarkError.
        """
        self._check_allowed()
        typed = normalised(address)
        known = self.settings.server(typed) or self.settings.server(f"{typed}/v1")
        if known is not None and known.keyed and not key:
            key = await self._secrets.read(_name(known.address))
        server = await self._client.look(address, key, self._proxy)
        kept = await self._secrets.write(_name(server.address), key) if key else True
        others = [each for each in self.settings.servers if each.address != server.address]
        self._put(self.settings.model_copy(update={"servers": (*others, server)}))
        return server, kept

    def remove(self, address: str) -> None:
        """Forget a server and its key. Its chats stay, and say that it is gone."""
        others = tuple(each for each in self.settings.servers if each.address != address)
        self._put(self.settings.model_copy(update={"servers": others}))
        self._tasks.spawn(self._secrets.write(_name(address), ""), tr("Deleting a key"))

    async def close(self) -> None:
        await self._client.close()

    @property
    def _proxy(self) -> str:
        return self._settings.settings.network.proxy

    def _follow_switch(self) -> None:
        if not self._settings.settings.network.allowed and self._client.pid is not None:
            self._tasks.spawn(self._client.close(), tr("Changing the connection"))

    def _check_allowed(self) -> None:
        if not self._settings.settings.network.allowed:
            raise ForbiddenError(
                tr("Allow Waymark to connect first; the switch is in *Get a model*.")
            )

    def _put(self, remote: RemoteSettings) -> None:
        self._settings.put(remote=remote)
        self.changed.emit()


def _name(address: str) -> str:
    """The name of a server's key in the keyring."""
    return f"server {address}"


def server_words(server: RemoteServer) -> str:
    """The server's host, and its program if it is known."""
    kind = KIND_NAMES[server.kind]
    return f"{host_of(server.address)} ({kind})" if kind else host_of(server.address)
