"""Plays a conversation script through a worker; prints a JSON line per step."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from core.api.chat import ContentPart, Conversation, ImagePart, TextPart, UserMessage
from core.api.commands import ClearCache, Flush, Forget, Generate, PrefillDraft, PrefillReply
from core.api.errors import ErrorInfo, ImageUnreadableError, WaymarkError
from core.api.events import Finished, Prepared
from core.api.params import CacheSettings, DraftSettings, ModelSettings, Probe
from core.api.reply_format import ReplyFormat
from core.api.stats import CacheBytes
from core.client.blobs import BlobStore
from core.client.client import EngineClient
from core.formats.check import NotCheckedError, fault
from core.replay.chats import Chat, Chats
from core.replay.steps import (
    AnsweringStep,
    ChatStep,
    ContinueStep,
    DraftStep,
    Edit,
    ForgetStep,
    LoadStep,
    Restart,
    Script,
    ScriptText,
    Send,
    SettingsStep,
    SettleStep,
    Side,
    Step,
)

Line = dict[str, object]
# Every line has every key, null where it doesn't apply.
EMPTY_LINE: Line = dict.fromkeys((
    "step", "op", "chat", "prompt_tokens", "prompt_positions", "reused_tokens", "evaluated_tokens",
    "images_in_prompt", "images_encoded", "restored_from", "restored_at", "checkpoints", "miss",
    "prompt_ids", "reply_ids", "reply", "reasoning", "finish_reason", "format_valid", "ttft_s",
    "prefill_s", "decode_tokens_per_s", "bytes", "seed", "draft", "settled_tokens",
    "read_ahead_tokens", "error",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setup:
    """`logits` is a safetensors file for the first logits of each step."""

    data: Path
    model: ModelSettings
    cache: CacheSettings
    draft: DraftSettings
    probe: Probe
    no_cache: bool
    logits: Path | None


class Replay:
    def __init__(self, script: Script, folder: Path, setup: Setup) -> None:
        self._script = script
        self._folder = folder
        self._setup = setup
        self._model, self._cache = setup.model, setup.cache
        self._blobs = BlobStore(setup.data / "images")
        self._chats = Chats()
        self._logits: dict[str, bytes] = {}

    async def run(self) -> bool:
        self._client = EngineClient(log_file=self._setup.data / "worker.log")
        try:
            await self._start()
            lines = [await self._step(index) for index in range(len(self._script.steps))]
        finally:
            await self._client.close()
        if self._setup.logits is not None:
            self._save_logits(self._setup.logits)
        return all(line["error"] is None for line in lines)

    async def _start(self) -> None:
        await self._client.start()
        await self._client.load(self._model)

    async def _step(self, index: int) -> Line:
        step = self._script.steps[index]
        chat = step.chat if isinstance(step, ChatStep) else None
        line = {**EMPTY_LINE, "step": index, "op": step.op, "chat": chat}
        try:
            if isinstance(step, ChatStep):
                line |= await self._talk(index, step)
            else:
                await self._change(step)
        except WaymarkError as error:
            line |= error_line(error.info(), isinstance(step, AnsweringStep))
        print(json.dumps(line), flush=True)
        return line

    async def _change(self, step: Restart | LoadStep | SettingsStep) -> None:
        match step:
            case Restart():
                await (self._client.kill() if step.kill else self._client.close())
                await self._start()
            case LoadStep():
                path = str((self._folder / step.model).resolve())
                settings = self._model.model_copy(update={"path": path})
                await self._client.load(settings)
                self._model = settings
            case SettingsStep():
                self._cache = step.applied_to(self._cache)

    async def _talk(self, index: int, step: ChatStep) -> Line:
        chat = self._chats.of(step.chat)
        before = list(chat.messages)
        try:
            self._chats.move(step, self._content(step))
            if isinstance(step, AnsweringStep):
                form = step.format.asked_for() if step.format is not None else None
                return answer_line(await self._answer(index, step, chat, form), form)
            if isinstance(step, SettleStep | DraftStep):
                return await self._prepare(step, chat)
            if isinstance(step, ForgetStep):
                folder = self._model.cache_folder
                forget = Forget(chat=chat_key(step.chat), cache_folder=folder)
                await self._client.ask(forget).last()
            return {}
        except WaymarkError:
            self._chats.restore(step.chat, chat, before)
            raise

    async def _answer(
        self, index: int, step: AnsweringStep, chat: Chat, form: ReplyFormat | None
    ) -> Finished:
        if self._setup.no_cache:
            await self._client.ask(ClearCache()).last()
        logits = self._setup.data / f"step.{index}.logits" if self._setup.logits else None
        if isinstance(step, Side):
            conversation = self._drafted(step, chat)
        elif isinstance(step, ContinueStep):
            conversation = chat.answered()
        else:
            conversation = chat.unanswered()
        probe = {
            "stop_after_tokens": step.stop_after_tokens,
            "cancel_prefill_after_tokens": step.cancel_prefill_after_tokens,
            "logits_file": str(logits) if logits else None,
        }
        command = Generate(
            conversation=conversation,
            chat=chat_key(step.chat),
            side=isinstance(step, Side),
            sampling=step.sampling if step.sampling is not None else self._script.sampling,
            draft=self._setup.draft,
            format=form,
            thinking=step.thinking,
            cache=self._cache,
            probe=self._setup.probe.model_copy(update=probe),
        )
        finished = await self._client.ask(command).last()
        if isinstance(step, ContinueStep):
            chat.open_reply().replace(finished.reply)
        elif not isinstance(step, Side):
            chat.open_reply().add(finished.reply)
        for written in () if logits is None else (logits, logits.with_suffix(".mtp")):
            if written.exists():
                self._logits[written.name] = written.read_bytes()
                written.unlink()
        return finished

    async def _prepare(self, step: SettleStep | DraftStep, chat: Chat) -> Line:
        """A settled reply is also written to disk."""
        settles = isinstance(step, SettleStep)
        kind: type[PrefillReply] | type[PrefillDraft] = PrefillReply if settles else PrefillDraft
        command = kind(
            conversation=chat.answered() if settles else self._drafted(step, chat),
            chat=chat_key(step.chat),
            thinking=step.thinking,
            cache=self._cache,
        )
        prepared = await self._client.ask(command).last()
        totals = (await self._client.ask(Flush()).last()).bytes if settles else None
        return prepared_line(prepared, step.op, totals)

    def _drafted(self, step: Step, chat: Chat) -> Conversation:
        return chat.with_draft(UserMessage(content=self._content(step)))

    def _content(self, step: Step) -> tuple[ContentPart, ...]:
        if not isinstance(step, Send | Edit | DraftStep | Side):
            return ()
        if isinstance(step.content, str):
            return (TextPart(text=step.content),)
        return tuple(
            TextPart(text=part.text) if isinstance(part, ScriptText) else self._image(part.image)
            for part in step.content
        )

    def _image(self, name: str) -> ImagePart:
        try:
            digest, path = self._blobs.put_file(self._folder / name)
        except (OSError, ValueError) as error:
            raise ImageUnreadableError(f"{name} can't be opened: {error}.") from error
        return ImagePart(digest=digest, path=str(path))

    def _save_logits(self, path: Path) -> None:
        # Torch is slow to import, and nothing else here needs it.
        import torch
        from safetensors import SafetensorError
        from safetensors.torch import save_file

        tensors = {
            name: torch.frombuffer(bytearray(data), dtype=torch.float32)
            for name, data in self._logits.items()
        }
        try:
            save_file(tensors, path)
        except SafetensorError as error:
            raise OSError(str(error)) from error


def chat_key(name: str) -> str:
    """Names may have characters that keys can't."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def answer_line(finished: Finished, form: ReplyFormat | None) -> Line:
    stats = finished.stats.model_dump(mode="json")
    line: Line = {key: stats[key] for key in EMPTY_LINE.keys() & stats.keys()}
    return line | {
        "prompt_ids": list(finished.prompt_ids),
        "reply_ids": list(finished.reply_ids),
        "reply": finished.reply.text,
        "reasoning": finished.reply.reasoning,
        "finish_reason": finished.reason,
        "format_valid": None if form is None else _is_valid(finished, form),
    }


def _is_valid(finished: Finished, form: ReplyFormat) -> bool | None:
    """False for a reply that was cut off; None if the check took too long."""
    try:
        return finished.reason == "stop" and not fault(form, finished.reply.text)
    except NotCheckedError:
        return None


def prepared_line(prepared: Prepared, op: str, totals: CacheBytes | None) -> Line:
    """`totals` are those after writing to disk."""
    key = "settled_tokens" if op == "settle" else "read_ahead_tokens"
    return {
        key: prepared.tokens,
        "images_encoded": prepared.encoded,
        "bytes": (totals or prepared.bytes).model_dump(mode="json"),
    }


def error_line(error: ErrorInfo, answering: bool) -> Line:
    told: Line = {"error": {"name": error.name, "title": error.title, "message": error.message}}
    return told | {"finish_reason": "error"} if answering else told
