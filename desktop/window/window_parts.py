"""All controllers of a window, created and closed in the order of their dependencies."""

from __future__ import annotations

import asyncio

from PySide6.QtCore import QObject, Signal

from core.client.blobs import BlobStore
from core.client.client import EngineClient
from core.system.secrets import Secrets
from desktop.background import Wakefulness, Work
from desktop.chat.chat import ChatController
from desktop.chat.context_fill import DraftSize
from desktop.chat.data.formats import Formats
from desktop.chat.drafts import Drafts
from desktop.chat.replies import Replies
from desktop.chat.transcript import LiveReply
from desktop.chats.chat_list import ChatList
from desktop.chats.chats import ChatsController, Titles
from desktop.chats.deletion import Deletion
from desktop.chats.folders import FoldersController
from desktop.compare.compare import CompareController
from desktop.context.charts import ChartsController
from desktop.context.context import ContextController
from desktop.context.idle_prefill import IdlePrefill
from desktop.context.limit import LimitController
from desktop.context.predictions import Predictions
from desktop.documents.documents import DocumentController
from desktop.engine.engine import EngineController
from desktop.engine.tasks import STEP_LIMIT_S, Tasks, attempted
from desktop.export.backup import BackupController
from desktop.export.export import ExportController
from desktop.formulas.formulas import formulas
from desktop.i18n import tr, use_language
from desktop.models.downloads import DownloadsController
from desktop.models.library import LibraryController
from desktop.models.moving import MoveController
from desktop.pictures.pictures import PictureController
from desktop.presets import ChatSettings
from desktop.remote.remote import RemoteController
from desktop.search.search import SearchController
from desktop.server.server import ServerController
from desktop.services import Services
from desktop.settings.settings import SettingsController
from desktop.store import restored
from desktop.store.database import Database
from desktop.store.folders import Folders
from desktop.store.settings_file import SettingsFile, language_of
from desktop.store.tables import replies
from desktop.store.tables.errors import StoreError
from desktop.store.tables.records import Reply
from desktop.threads import DaemonExecutor

# More than are ever busy at once, so that a few that hang don't block the rest.
THREADS = 16
# The engine's last flush and the wait for its process take 16 s at most.
ENGINE_LIMIT_S = 20.0


class WindowParts(QObject):
    said = Signal(str)
    # ErrorInfo: a background task failed.
    failed = Signal(object)
    # The list of chats has been read for the first time.
    chats_read = Signal()

    def __init__(self, folders: Folders, engine: EngineClient) -> None:
        super().__init__()
        self.folders = folders
        try:
            aside = restored.take(folders)
        except OSError as error:
            words = tr("A restored backup can't be put in place: {reason}.")
            raise StoreError(words.format(reason=error.strerror)) from error
        # What follows may make messages.
        use_language(language_of(folders.settings_file))
        self.restored = restored.words_of(aside)
        self.database = Database(folders.database)
        try:
            self._make(folders, engine)
        except BaseException:
            self.database.close()
            raise
        self._threads = DaemonExecutor("waymark", THREADS)
        # qasync's own executor would start ten QThreads; closing needs one even if `begin` failed.
        asyncio.get_running_loop().set_default_executor(self._threads)

    def _make(self, folders: Folders, engine: EngineClient) -> None:
        self.tasks = Tasks(self.failed.emit)
        self.engine = EngineController(engine, self.tasks)
        self.settings = SettingsController(
            SettingsFile(folders.settings_file), self.engine, folders.contexts
        )
        blobs = BlobStore(folders.pictures)
        self.secrets = Secrets()
        self.remote = RemoteController(self.tasks, self.settings, self.secrets, folders)
        services = Services(
            self.engine, self.database, blobs, self.settings, self.tasks, self.remote
        )
        self.replies = Replies(services)
        self.pictures = PictureController(services)
        self.chat_list = ChatList()
        self.documents = DocumentController(services, self.pictures)
        self.drafts = Drafts(services, self.pictures, self.documents)
        self.chats = ChatsController(services, self.chat_list, self.replies)
        self.formats = Formats(self.tasks)
        self.chat = ChatController(services, self.replies, self.drafts)
        self.transcript = self.chat.transcript
        self.chat.shown.connect(self.chats.set_shown)
        self.chat.stored.connect(self.chats.read_again)
        self.chats.forked.connect(self.chat.open_made)
        self.chats.messages_restored.connect(self.chat.look_again)
        self.chat_settings = ChatSettings(self.chat, self.settings)
        self.folders_of_chats = FoldersController(
            services, self.chats, self.chat, self.chat_settings
        )
        self.draft_size = DraftSize(services, self.chat)
        self.limit = LimitController(services, self.chat, self.chats)
        self.idle_prefill = IdlePrefill(services, self.chat, self.chats, self.limit)
        self.idle_prefill.settled.connect(self.draft_size.note_settled)
        # After the idle prefill: a title then reads only the question for it.
        self.titles = Titles(services, self.chats, self.replies)
        self.predictions = Predictions(services, self.chat)
        self.context = ContextController(services, self.chat, self.idle_prefill)
        self.charts = ChartsController(services, self.chat)
        self.search = SearchController(folders, self.tasks)
        self.compare = CompareController(services)
        self.compare.kept.connect(self.chats.read_again)
        cleared = self.chats, self.chat, self.pictures, self.search
        self.deletion = Deletion(services, *cleared, folders, self.compare.digests)
        self.export = ExportController(services, self.chats, self.pictures)
        self.backup = BackupController(services, self.chats, self.export, folders)
        for each in (self.engine, self.deletion, self.settings, self.context):
            each.said.connect(self.said)
        self.downloads = DownloadsController(self.tasks, self.settings, folders, self.secrets)
        self.library = LibraryController(self.tasks, self.settings, folders, self.downloads.folder)
        self.moves = MoveController(self.tasks, self.settings, self.library)
        self.server = ServerController(
            self.tasks, self.settings, self.engine, folders, self.library.find
        )
        self.deletion.everything_gone.connect(self.server.forget)
        self.work = Work(self.replies, self.downloads, self.server, self.compare)
        self.wakefulness = Wakefulness(self.work, self.settings, self.tasks)
        self.replies.ended.connect(self._on_ended)

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(each for each in (self.database.notice, self.settings.notice) if each)

    def begin(self) -> None:
        formulas().begin()
        self.tasks.spawn(self._read_chats(), tr("Reading the chats"))
        self.settings.begin()
        self.downloads.find_unfinished()
        self.moves.tidy()
        self.server.begin()

    async def close(self) -> None:
        """Store everything, delete what is due, end the engine. Idempotent."""
        if self.tasks.closed:
            return
        # A disk that fails or hangs must not keep the window open or the engine alive.
        for what, step, limit_s in (
            ("ending tasks", self.tasks.close, STEP_LIMIT_S),
            ("storing replies", self.replies.store_at_closing, STEP_LIMIT_S),
            ("storing drafts", self.drafts.store_at_closing, STEP_LIMIT_S),
            ("storing instructions", self.drafts.store_instructions, STEP_LIMIT_S),
            ("deleting for good", self.deletion.close, STEP_LIMIT_S),
            ("ending the reading of documents", self.documents.close, STEP_LIMIT_S),
            ("ending formulas", formulas().close, STEP_LIMIT_S),
            ("ending downloads", self.downloads.close, STEP_LIMIT_S),
            ("ending the local server", self.server.close, STEP_LIMIT_S),
            ("ending connections to servers", self.remote.close, STEP_LIMIT_S),
            ("ending the engine", self.engine.close, ENGINE_LIMIT_S),
            ("closing the search index", self.search.close, STEP_LIMIT_S),
            ("closing the database", self.database.close, STEP_LIMIT_S),
            ("ending threads", self._threads.shutdown, STEP_LIMIT_S),
        ):
            await attempted(what, step, limit_s)

    async def _read_chats(self) -> None:
        await self.database.run(replies.stop_running)
        await self.chats.refresh()
        self.chats_read.emit()
        self.charts.read()
        await self.deletion.purge_old(spare=self.database.made)
        self.search.begin()

    def _on_ended(self, _live: LiveReply, _text: str, reply: Reply) -> None:
        self.settings.note_outcome(reply.error)
