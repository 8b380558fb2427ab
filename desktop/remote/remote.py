"""The servers that the user added: keys, models, replies from them, and their dialog."""

from __future__ import annotations

import contextlib

from PySide6.QtCore import QObject, QSize, Qt, Signal
from PySide6.QtWidgets import (
    QFormLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QWidget,
)

from core.api.commands import Generate
from core.api.errors import RemoteKeyError, RemoteUnreachableError, WaymarkError
from core.api.events import Finished
from core.client.requests import Request
from core.remote.client import RemoteClient
from core.remote.connection import host_of, is_readable, normalised
from core.remote.messages import KIND_NAMES, Place, RemoteModel, RemoteServer
from core.system.secrets import Secrets
from desktop import theme
from desktop.engine.error_words import error_text
from desktop.engine.tasks import Tasks
from desktop.i18n import tr
from desktop.numbers import count_of, format_count
from desktop.settings.settings import SettingsController
from desktop.store.folders import Folders
from desktop.store.settings import RemoteSettings
from desktop.widgets.dialogs import Dialog
from desktop.widgets.layouts import Frame, column, row
from desktop.widgets.plain import Button, Label, named


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
    ) -> None:
        super().__init__()
        self._tasks, self._settings, self._secrets = tasks, settings, secrets
        self._client = RemoteClient(folders.engine_log.with_name("remote.log"))
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
        """Add a server, or read its models again with the key that it had; False if the key lasts
        until the app ends. Raises WaymarkError."""
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
        """Its chats stay, and say that it is gone."""
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
    """In the keyring."""
    return f"server {address}"


def server_words(server: RemoteServer) -> str:
    kind = KIND_NAMES[server.kind]
    return f"{host_of(server.address)} ({kind})" if kind else host_of(server.address)


WIDTH, HEIGHT, ITEM_HEIGHT = 620, 560, 30


class ServersDialog(Dialog):
    # Place: the user wants the shown chat's replies from there.
    place_asked = Signal(object)

    def __init__(self, remote: RemoteController, tasks: Tasks, parent: QWidget) -> None:
        super().__init__("serversDialog", tr("Servers"), parent)
        self._remote, self._tasks = remote, tasks
        self._busy = False
        self.address = _field("serverAddressField", tr("Address"), tr("https://host or host:8000"))
        self.key = _field("serverKeyField", tr("Key"), tr("if the server asks for one"))
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self._add = Button(tr("Connect"), name="serverConnectButton", style="primary")
        self._add.setDefault(True)
        self._add.clicked.connect(self._on_add)
        self._said = Label(name="serversSaid", style="muted small", wraps=True, selectable=True)
        self._list = named(QListWidget(), "serverModels", tr("Models on servers"))
        self._list.currentItemChanged.connect(self._enable)
        self._list.itemActivated.connect(lambda _item: self._use())
        self._remove = self.button("serverRemove", tr("Remove the server"), self._on_remove)
        self._choose = self.button("serverUse", tr("Use for this chat"), self._use, "primary")
        self._lay_out()
        self.address.textChanged.connect(self._warn)
        self.key.textChanged.connect(lambda words: self._warn() if words else None)
        remote.changed.connect(self._show)
        self._show()
        self._warn()

    def edit(self, address: str) -> None:
        self.address.setText(address)
        self.key.clear()
        self._say(tr("Enter the key of {host} again.").format(host=host_of(address)))

    def _lay_out(self) -> None:
        box = Frame("serverBox")
        form = QFormLayout()
        form.addRow(Label(tr("Address"), style="label"), self.address)
        form.addRow(Label(tr("Key"), style="label"), self.key)
        about = Label(
            tr(
                "A server that speaks OpenAI's protocol: vLLM, SGLang, llama.cpp, Ollama, "
                "LM Studio, another Waymark. Waymark connects to it when you press Connect, "
                "and for replies in chats that run there. No chat is sent anywhere before "
                "you agree."
            ),
            style="muted small",
            wraps=True,
        )
        column(
            about, form, row(None, self._add), self._said, of=box, margins=(12, 10, 12, 10),
            spacing=8,
        )  # fmt: skip
        close = self.button("serversClose", tr("Close"), self.close)
        column(
            box,
            (self._list, 1),
            row(self._remove, None, self._choose, close),
            of=self,
            margins=(16, 14, 16, 14),
            spacing=10,
        )
        self.fit(WIDTH, HEIGHT)

    def _show(self) -> None:
        self._list.clear()
        for server in self._remote.settings.servers:
            host = _item(f"{server_words(server)}, {count_of(len(server.models), 'model')}")
            font = host.font()
            font.setBold(True)
            host.setFont(font)
            host.setData(Qt.ItemDataRole.UserRole, server.address)
            self._list.addItem(host)
            for model in server.models:
                item = _item(f"    {model_words(model)}")
                item.setData(Qt.ItemDataRole.UserRole, server.address)
                item.setData(Qt.ItemDataRole.UserRole + 1, model.name)
                self._list.addItem(item)
        self._enable()

    def _enable(self) -> None:
        item = self._list.currentItem()
        self._remove.setEnabled(item is not None)
        self._choose.setEnabled(item is not None and bool(item.data(Qt.ItemDataRole.UserRole + 1)))
        self._add.setEnabled(not self._busy)

    def _use(self) -> None:
        item = self._list.currentItem()
        if item is not None and self._choose.isEnabled():
            address, model = (item.data(Qt.ItemDataRole.UserRole + each) for each in (0, 1))
            self.place_asked.emit(Place(address=str(address), model=str(model)))
            self.close()

    def _on_remove(self) -> None:
        item = self._list.currentItem()
        if item is not None:
            address = str(item.data(Qt.ItemDataRole.UserRole))
            self._remote.remove(address)
            self._say(
                tr("{host} and its key are removed. Chats that ran there stay here.").format(
                    host=host_of(address)
                )
            )

    def _on_add(self) -> None:
        if not self._busy:
            self._busy = True
            self._enable()
            self._say(tr("Connecting…"))
            self._tasks.spawn(self._connect(), tr("Connecting to a server"))

    async def _connect(self) -> None:
        try:
            server, kept = await self._remote.add(self.address.text(), self.key.text().strip())
        except WaymarkError as error:
            self._say(error_text(error), bad=True)
        else:
            self._say(added_words(server, kept))
            self.address.clear()
            self.key.clear()
            self._select(server)
        finally:
            self._busy = False
            self._enable()

    def _select(self, server: RemoteServer) -> None:
        for place in range(self._list.count()):
            item = self._list.item(place)
            if item.data(Qt.ItemDataRole.UserRole) == server.address:
                self._list.setCurrentRow(place + bool(server.models))
                self._list.setFocus()
                return

    def _warn(self) -> None:
        typed, address = self.address.text().strip(), ""
        # Not at the first letters: "a" would be a host in the local network.
        if ":" in typed or self.key.text():
            with contextlib.suppress(WaymarkError):
                address = normalised(typed)
        if address and is_readable(address):
            self._say(
                tr(
                    "Not encrypted: on the way to this server, others in the network can read the "
                    "key and all that is sent."
                ),
                bad=True,
            )
        elif typed and not self._busy:
            self._say("")

    def _say(self, words: str, bad: bool = False) -> None:
        self._said.say(words, "warning small" if bad else "muted small")


def _field(name: str, spoken: str, empty: str) -> QLineEdit:
    field = named(QLineEdit(), name, spoken)
    field.setPlaceholderText(empty)
    return field


def _item(words: str) -> QListWidgetItem:
    item = QListWidgetItem(words)
    item.setSizeHint(QSize(0, theme.px(ITEM_HEIGHT)))
    return item


def model_words(model: RemoteModel) -> str:
    parts = [model.name]
    if model.context_length:
        parts.append(tr("{} tokens").format(format_count(model.context_length)))
    if model.vision:
        parts.append(tr("sees pictures"))
    return ", ".join(parts)


def added_words(server: RemoteServer, kept: bool) -> str:
    host = server_words(server)
    if not server.models:
        words = tr("{host} answers, but lists no models.").format(host=host)
    else:
        models = count_of(len(server.models), "model")
        words = tr("{host} answers with {models}.").format(host=host, models=models)
    if server.keyed and kept:
        words += " " + tr("Its key is in the system's keyring.")
    elif server.keyed:
        words += " " + tr("There is no keyring here, so its key is kept until you quit.")
    return words
