"""A stand-in for the engine's client, scripted by tests: the same methods, no process, no model."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, Qt
from PySide6.QtGui import QColor, QImage, QImageWriter

from core.api.chat import AssistantMessage, ImagePart, ReplyIds
from core.api.commands import (
    Answered,
    CountTokens,
    DeleteMatrices,
    DescribeImage,
    EditReply,
    Forget,
    Generate,
    IdleWork,
    Last_co,
    Predict,
    PrefillDraft,
    PrefillReply,
    RenderImage,
)
from core.api.errors import (
    EngineDiedError,
    ErrorInfo,
    ImageUnreadableError,
    MissingFileError,
    RequestCancelled,
    WaymarkError,
)
from core.api.events import (
    Answer,
    Counted,
    Done,
    Edited,
    Failed,
    Finished,
    FinishReason,
    Generated,
    ImageDescribed,
    ImageRendered,
    Predicted,
    Prefilling,
    Prepared,
    Queued,
)
from core.api.model_info import ModelInfo
from core.api.params import ModelSettings, SamplingParams
from core.api.stats import RequestStats
from core.client.client import EngineClient, StateCallback
from core.client.life import EngineState
from core.client.requests import EngineError, Request
from core.vision.decode import read_picture

TOKENIZER = "t" * 64


def model_info(**other: object) -> ModelInfo:
    values: dict[str, object] = {
        "name": "stand-in",
        "path": "/models/stand-in",
        "family": "qwen3_5",
        "device": "cpu",
        "precision": "float32",
        "num_parameters": 1_000,
        "context_length": 4096,
        "model_context_length": 8192,
        "vision": True,
        "thinking_switch": True,
        "max_image_tokens": 1024,
        "grid": 512,
        "checkpoint_bytes": 2**20,
        "kv_bytes_per_token": 1024,
        "host_budget": 2 * 10**9,
        "smallest_host_budget": 4096 * 1024,
        "disk_budget": 10**10,
        "sampling": SamplingParams(temperature=0.7, top_k=20, top_p=0.8, min_p=0.0),
        "tokenizer": TOKENIZER,
        "fingerprint": "f" * 64,
    }
    return ModelInfo.model_validate({**values, **other})


def png(width: int = 48, height: int = 32, colour: str = "red") -> bytes:
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(QColor(colour))
    array = QByteArray()
    buffer = QBuffer(array)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    return bytes(array.data())


def rendered(command: RenderImage) -> ImageRendered:
    found, (width, height) = QImage(command.image.path), (command.width, command.height)
    if found.isNull():
        raise ImageUnreadableError("It is damaged.")
    if found.width() > width or found.height() > height:
        found = found.scaled(width, height, Qt.AspectRatioMode.KeepAspectRatio)
    found = found.convertToFormat(QImage.Format.Format_RGBA8888)
    pixels = bytes(found.constBits())
    return ImageRendered(request=0, width=found.width(), height=found.height(), pixels=pixels)


class Asked:
    """One reply to give."""

    def __init__(self, command: Generate) -> None:
        self.command = command
        self.conversation = command.conversation
        self.cancelled = False
        self.deaf = False
        self.request = Request(command, self._cancel)
        self.text = ""
        self._begun = False

    def queue(self, ahead: int) -> None:
        self.request.put(Queued(request=self.request.id, ahead=ahead))

    def prefill(self, done: int, stats: RequestStats) -> None:
        begun = ReplyIds.pack((), TOKENIZER, starts_in_reasoning=False)
        self.request.put(Prefilling(request=self.request.id, done=done, stats=stats, begun=begun))
        self._begun = True

    def say(
        self,
        answer: str = "",
        reasoning: str = "",
        ids: tuple[int, ...] = (),
        ttft_s: float | None = None,
        speed: float | None = None,
    ) -> None:
        # As the engine does, which tells of its prefill before any word.
        if not self._begun:
            self.prefill(0, RequestStats())
        self.text += answer
        said = {"answer": answer, "reasoning": reasoning, "ids": ids}
        rates = {"ttft_s": ttft_s, "decode_tokens_per_s": speed}
        self.request.put(Generated.model_validate({"request": self.request.id, **said, **rates}))

    def finish(
        self,
        text: str | None = None,
        reason: FinishReason = "stop",
        stats: RequestStats | None = None,
        reasoning: str = "",
    ) -> None:
        words = self.text if text is None else text
        # No more than fit into the context, whatever a test has it say.
        count = min(len(words), 4096)
        ids = ReplyIds.pack(range(count), TOKENIZER, starts_in_reasoning=False)
        self.request.put(
            Finished(
                request=self.request.id,
                reason=reason,
                reply=AssistantMessage(text=words, reasoning=reasoning, ids=ids),
                reply_ids=tuple(range(count)),
                stats=stats or RequestStats(prompt_tokens=10, evaluated_tokens=10),
            )
        )

    def fail(self, error: ErrorInfo) -> None:
        self.request.put(Failed(request=self.request.id, error=error))

    def _cancel(self, _number: int) -> None:
        self.cancelled = True
        if not self.deaf:
            self.finish(reason="cancelled")


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


class FakeEngine(EngineClient):
    """Does nothing by itself but load; a test answers what is in `asked`."""

    idle_s = 0.0

    def __init__(self, model: ModelInfo | None = None) -> None:
        self.state = EngineState.CLOSED
        self.model: ModelInfo | None = None
        self.asked: list[Asked] = []
        self.loads: list[ModelSettings] = []
        # Titles that were asked for.
        self.titles: list[Asked] = []
        # Idle work that was asked for, and the numbers of those drafts that were taken back.
        self.settled: list[PrefillReply] = []
        self.settling: list[Request[Prepared]] = []
        self.read: list[PrefillDraft] = []
        self.reading: list[Request[Prepared]] = []
        self.unsettled: list[int] = []
        self.unread: list[int] = []
        # What was asked of coming requests, and the answer.
        self.foreseen: list[Predict] = []
        self.prediction = Predicted(request=0, prompt_tokens=900, tokens=212, seconds=0.4)
        # What was confirmed as forgotten; while `may_forget` is not set, nothing is confirmed.
        self.forgotten: list[tuple[str | None, str | None]] = []
        self.deleted_matrices: list[str] = []
        self.forgets: list[str | None] = []
        self.may_forget = _set_event()
        self._deaths = 0
        self.closed = False
        self.starts = True
        self.model_to_load: ModelInfo | None = model or model_info()
        # By path, in place of `model_to_load`.
        self.models: dict[str, ModelInfo | WaymarkError] = {}
        self.may_load = _set_event()
        # Whether a model stays when the load of another fails.
        self.keeps_model = True
        self.load_cancels = 0
        self.load_cancelled = False
        self._loads_now = False
        self._settings: ModelSettings | None = None
        self._coming: ModelSettings | None = None
        self.load_error: WaymarkError = MissingFileError("config.json is missing.")
        self.may_describe = _set_event()
        # Texts of which the tokens were counted: a word is one.
        self.counted: list[str] = []
        self.may_count = _set_event()
        self.render_error: WaymarkError | None = None
        self.may_render = _set_event()
        self._subscribers: list[StateCallback] = []
        self._answering: list[asyncio.Task[None]] = []

    @property
    def wanted(self) -> ModelSettings | None:
        return self._coming or self._settings

    def subscribe(self, callback: StateCallback) -> None:
        self._subscribers.append(callback)

    def tell(self, state: EngineState, words: str = "") -> None:
        self.state = state
        for callback in self._subscribers:
            callback(state, words)

    async def start(self) -> None:
        self.tell(EngineState.STARTING)
        if not self.starts:
            self.tell(EngineState.FAILED, "It does not come up.")
            raise EngineDiedError("It does not come up.")
        self.tell(EngineState.READY)

    async def restart(self) -> None:
        self._settings = self.wanted
        await self.die("The engine was started again, as you asked.")

    async def close(self, flush: bool = True) -> None:
        self.closed = True
        for task in self._answering:
            task.cancel()
        self.tell(EngineState.CLOSED)

    async def load(
        self, settings: ModelSettings, on_progress: Callable[[int, int], None] | None = None
    ) -> ModelInfo:
        self.loads.append(settings)
        if on_progress:
            on_progress(512, 1024)
        self.load_cancelled = False
        self._loads_now, self._coming = True, settings
        alive = await self._may_load()
        self._loads_now, self._coming = False, None
        if not alive:
            raise EngineError(EngineDiedError("The engine was ended.").info())
        if self.load_cancelled:
            raise EngineError(RequestCancelled("The request was stopped.").info())
        found = self.models.get(settings.path, self.model_to_load or self.load_error)
        if isinstance(found, WaymarkError):
            if not self.keeps_model:
                self.model = self._settings = None
            raise EngineError(found.info())
        self._settings, self.model = settings, found
        return self.model

    async def _may_load(self) -> bool:
        """Wait until a load may end; False if the engine died before."""
        deaths = self._deaths
        while not self.may_load.is_set() and deaths == self._deaths:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return deaths == self._deaths

    def cancel_load(self) -> None:
        """Does nothing if no load goes on."""
        if self._loads_now:
            self.load_cancelled = True
            self.load_cancels += 1
            self.may_load.set()

    def ask(self, command: Answered[Last_co]) -> Request[Last_co]:
        return self._request(command)

    def _request(self, command: Answered[Any]) -> Request[Any]:
        match command:
            case Generate(idle=True):
                self.titles.append(Asked(command))
                return self.titles[-1].request
            case Generate():
                self.asked.append(Asked(command))
                return self.asked[-1].request
            case PrefillReply():
                self.settled.append(command)
                return self._idle(command, self.settling, self.unsettled)
            case PrefillDraft():
                self.read.append(command)
                return self._idle(command, self.reading, self.unread)
        request = Request(command, lambda _number: None)
        self._answering.append(asyncio.ensure_future(self._answer(request)))
        return request

    def _idle(
        self, command: IdleWork[Prepared], asked: list[Request[Prepared]], cancelled: list[int]
    ) -> Request[Prepared]:
        numbered = command.model_copy(update={"request": len(asked)})
        asked.append(Request(numbered, cancelled.append))
        return asked[-1]

    async def _answer(self, request: Request[Any]) -> None:
        try:
            request.put(await self._last(request.command))
        except WaymarkError as error:
            request.put(Failed(request=request.id, error=error.info()))

    async def _last(self, command: Answered[Any]) -> Answer:
        match command:
            case DescribeImage():
                return await self._describe(command.image)
            case RenderImage():
                return await self._render(command)
            case CountTokens():
                self.counted.append(command.text)
                await self.may_count.wait()
                return Counted(request=0, tokens=len(command.text.split()))
            case EditReply():
                # Its words are characters, each an id, and the first difference is at one of them.
                pairs = zip(command.reply.text, command.text, strict=False)
                kept = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
                ids = range(len(command.text))
                return Edited(
                    request=0,
                    ids=ReplyIds.pack(ids, TOKENIZER, False, (kept,) if kept else ()),
                )
            case Predict():
                self.foreseen.append(command)
                return self.prediction
            case Forget():
                await self._forget(command)
            case DeleteMatrices():
                self.deleted_matrices.append(command.cache_folder)
        return Done(request=command.request)

    async def _describe(self, image: ImagePart) -> ImageDescribed:
        await self.may_describe.wait()
        data = read_picture(Path(image.path), image.digest, image.called)
        assert hashlib.sha256(data).hexdigest() == image.digest
        found = QImage.fromData(data)
        if found.isNull():
            raise ImageUnreadableError("It is damaged.")
        seen = self.model is not None and self.model.vision
        return ImageDescribed(
            request=0,
            digest=image.digest,
            size=(found.width(), found.height()),
            resized=(32, 32) if seen else None,
            tokens=4 if seen else None,
            thumbnail=data,
        )

    async def _render(self, command: RenderImage) -> ImageRendered:
        await self.may_render.wait()
        if self.render_error is not None:
            raise self.render_error
        # Not in the window's thread, as little as the engine does it there.
        return await asyncio.get_running_loop().run_in_executor(None, rendered, command)

    async def _forget(self, command: Forget) -> None:
        deaths = self._deaths
        self.forgets.append(command.chat)
        if self.state is EngineState.READY:
            await self.may_forget.wait()
        if self.state is not EngineState.READY or deaths != self._deaths:
            raise EngineDiedError("The engine is not running.")
        self.forgotten.append((command.chat, command.cache_folder))

    async def die(self, words: str = "The engine crashed (SIGSEGV).") -> None:
        """Fail, come back, load again, like a client whose worker dies."""
        for asked in self.asked:
            if not asked.request._ended:
                asked.fail(EngineDiedError(words).info())
        self.model = None
        self._deaths += 1
        self.tell(EngineState.RESTARTING, words)
        await asyncio.sleep(0.05)
        # One that kills the engine is not loaded twice.
        self._coming, self._settings = self._settings, None
        self.tell(EngineState.READY)
        if self._coming is None or not await self._may_load():
            return
        self._settings, self._coming = self._coming, None
        self.model = self.model_to_load
        self.tell(EngineState.READY)
