"""Headless runner: a conversation script in, one JSON line per step out, through a real worker.

    python -m core.replay SCRIPT.json --model DIR [--device cpu|cuda]
        [--dtype float32|bfloat16|int8|int4] [--checkpoints N] [--interval T] [--host-bytes N]
        [--device-bytes N] [--disk-bytes N] [--grid G] [--no-cache] [--data DIR] [--logits FILE]
        [--draft auto|off|lookup|mtp|both] [--draft-tokens N] [--draft-noise P] [--skip-rollback]

This is how bugs are reported and benchmarks run. The script's format is in
`core.replay.steps`. Exit code 0 when all went well, 1 when a step ended in an error, 2 when
the script doesn't fit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

from core.api.chat import ContentPart, Conversation, ImagePart, TextPart, UserMessage
from core.api.commands import ClearCache, Flush, Forget, Generate, ReadAhead, Settle
from core.api.errors import ImageUnreadableError, WaymarkError
from core.api.events import Finished
from core.api.reply_format import ReplyFormat
from core.client.blobs import BlobStore
from core.client.client import EngineClient
from core.replay.chats import Chat, Chats
from core.replay.lines import Line, answer_line, empty_line, error_line, prepared_line
from core.replay.options import cache_settings, draft_settings, model_settings, probe_settings
from core.replay.steps import (
    AnsweringStep,
    ChatStep,
    Content,
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


class Replay:
    """Steps through a script. Chats live here; the engine keeps none."""

    def __init__(
        self, script: Script, folder: Path, data: Path, options: argparse.Namespace
    ) -> None:
        self._script = script
        self._folder = folder
        self._data = data
        self._options = options
        self._model = model_settings(options, data)
        self._cache = cache_settings(options)
        self._draft, self._probe = draft_settings(options), probe_settings(options)
        self._blobs = BlobStore(data / "images")
        self._chats = Chats()
        self._logits: dict[str, bytes] = {}

    async def run(self) -> bool:
        """Print a line per step; returns whether all steps went well."""
        self._client = EngineClient(log_file=self._data / "worker.log")
        try:
            await self._start()
            lines = [await self._step(index) for index in range(len(self._script.steps))]
        finally:
            await self._client.close()
        if self._options.logits:
            self._save_logits(Path(self._options.logits))
        return all(line["error"] is None for line in lines)

    async def _start(self) -> None:
        await self._client.start()
        await self._client.load(self._model)

    async def _step(self, index: int) -> Line:
        step = self._script.steps[index]
        line = empty_line(index, step.op, step.chat if isinstance(step, ChatStep) else None)
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
        """A step that belongs to no chat."""
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
        """A step of a chat. One that fails leaves it as it was, so that the next steps still
        fit."""
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
        if self._options.no_cache:
            await self._client.ask(ClearCache()).last()
        logits = self._data / f"step.{index}.logits" if self._options.logits else None
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
            draft=self._draft,
            format=form,
            thinking=step.thinking,
            cache=self._cache,
            probe=self._probe.model_copy(update=probe),
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
        """Idle work, run to its end within the step; writing what was settled is part of it."""
        settles = isinstance(step, SettleStep)
        kind: type[Settle] | type[ReadAhead] = Settle if settles else ReadAhead
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
        """A step's content with its pictures' bytes taken now."""
        if not isinstance(step, Send | Edit | DraftStep | Side):
            return ()
        content: Content = step.content
        if isinstance(content, str):
            return (TextPart(text=content),)
        return tuple(
            TextPart(text=part.text) if isinstance(part, ScriptText) else self._image(part.image)
            for part in content
        )

    def _image(self, name: str) -> ImagePart:
        try:
            digest, path = self._blobs.put_file(self._folder / name)
        except (OSError, ValueError) as error:
            raise ImageUnreadableError(f"{name} can't be opened: {error}.") from error
        return ImagePart(digest=digest, path=str(path))

    def _save_logits(self, path: Path) -> None:
        # Torch is slow to import and nothing else here needs it.
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
    """What the cache knows a script's chat by; a name may hold any character, a key may not."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
