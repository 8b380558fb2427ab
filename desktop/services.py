"""Services of nearly every controller, and the base class that keeps them."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject

from core.client.blobs import BlobStore
from desktop.engine.engine import EngineController
from desktop.engine.tasks import Tasks
from desktop.remote.remote import RemoteController
from desktop.settings.settings import SettingsController
from desktop.store.database import Database


@dataclass(frozen=True, slots=True)
class Services:
    engine: EngineController
    database: Database
    blobs: BlobStore
    settings: SettingsController
    tasks: Tasks
    remote: RemoteController


class Controller(QObject):
    def __init__(self, services: Services) -> None:
        super().__init__()
        self._engine, self._database = services.engine, services.database
        self._blobs, self._settings = services.blobs, services.settings
        self._tasks, self._remote = services.tasks, services.remote
