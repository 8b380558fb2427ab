"""The shared services that nearly every controller needs, as one argument."""

from __future__ import annotations

from dataclasses import dataclass

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
