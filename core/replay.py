"""Headless runner: a conversation script in, one JSON line per step out, through a real worker.

    python -m core.replay SCRIPT.json --model DIR [--device cpu|cuda] [--dtype float32|bfloat16]
        [--checkpoints N] [--interval T] [--grid G] [--no-cache] [--data DIR] [--logits FILE]

This is how bugs are reported and benchmarks run. The script's format is in `core.client.script`.
Exit code 0 when all went well, 1 when a step ended in an error, 2 when the script doesn't fit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from pydantic import ValidationError

from core.api.chat import ContentPart, ImagePart, TextPart, UserMessage
from core.api.errors import ErrorInfo, ImageUnreadableError, InvalidRequestError, WaymarkError
from core.api.events import Finished, Prepared
from core.api.params import CacheSettings, ModelSettings
from core.client.blobs import BlobStore
from core.client.client import EngineClient
from core.client.lock import DataFolderLock
from core.client.script import (
    AnsweringStep,
    Chat,
    Content,
    ContinueStep,
    DraftStep,
    Edit,
    Script,
    ScriptText,
    Send,
    SettleStep,
    Step,
    move,
    read_script,
)

Line = dict[str, object]

EMPTY_LINE: Line = dict.fromkeys(
    (
        "step",
        "op",
        "chat",
        "prompt_tokens",
        "prompt_positions",
        "reused_tokens",
        "evaluated_tokens",
        "images_in_prompt",
        "images_encoded",
        "restored_from",
        "restored_at",
        "checkpoints",
        "miss",
        "prompt_ids",
        "reply_ids",
        "reply",
        "reasoning",
        "finish_reason",
        "ttft_s",
        "prefill_s",
        "decode_tokens_per_s",
        "bytes",
        "seed",
        "settled_tokens",
        "read_ahead_tokens",
        "error",
    )
)


class Replay:
    """Steps through a script. Chats live here; the engine keeps none."""

    def __init__(self, script: Script, folder: Path, data: Path, options: argparse.Namespace):
        self._script = script
        self._folder = folder
        self._data = data
        self._options = options
        self._blobs = BlobStore(data / "images")
        self._chats: dict[str, Chat] = {}
        self._logits: dict[str, bytes] = {}
        self._cache = CacheSettings(count=options.checkpoints, interval=options.interval)

    async def run(self) -> bool:
        """Print a line per step; returns whether all steps went well."""
        client = EngineClient(log_file=self._data / "worker.log")
        await client.start()
        try:
            await client.load(model_settings(self._options))
            lines = [await self._step(client, index) for index in range(len(self._script.steps))]
        finally:
            await client.close()
        if self._options.logits:
            self._save_logits(Path(self._options.logits))
        return all(line["error"] is None for line in lines)

    async def _step(self, client: EngineClient, index: int) -> Line:
        step = self._script.steps[index]
        line: Line = {**EMPTY_LINE, "step": index, "op": step.op, "chat": step.chat}
        chat = self._chats.setdefault(step.chat, Chat())
        before = list(chat.messages)
        try:
            move(chat, step, self._content(step))
            if isinstance(step, AnsweringStep):
                line |= _answer_line(await self._answer(client, index, step, chat))
            elif isinstance(step, SettleStep | DraftStep):
                line |= await self._prepare(client, step, chat)
        except WaymarkError as error:
            # A step that failed leaves its chat as it was, so that the next steps still fit.
            chat.messages = before
            line["error"] = _error(error.info())
        print(json.dumps(line), flush=True)
        return line

    async def _answer(
        self, client: EngineClient, index: int, step: AnsweringStep, chat: Chat
    ) -> Finished:
        if self._options.no_cache:
            await client.clear_cache()
        logits = self._data / f"step.{index}.logits" if self._options.logits else None
        goes_on = isinstance(step, ContinueStep)
        finished = await client.generate(
            chat.answered() if goes_on else chat.unanswered(),
            step.sampling if step.sampling is not None else self._script.sampling,
            step.thinking,
            self._cache,
            step.stop_after_tokens,
            str(logits) if logits else None,
        ).last()
        assert isinstance(finished, Finished)
        reply = chat.open_reply()
        if goes_on:
            reply.replace(finished.reply)
        else:
            reply.add(finished.reply)
        if logits is not None and logits.exists():
            self._logits[f"step.{index}.logits"] = logits.read_bytes()
            logits.unlink()
        return finished

    async def _prepare(
        self, client: EngineClient, step: SettleStep | DraftStep, chat: Chat
    ) -> Line:
        """Idle work, run to its end within the step."""
        if isinstance(step, SettleStep):
            request = client.settle(chat.answered(), step.thinking, self._cache)
        else:
            draft = UserMessage(content=self._content(step))
            request = client.read_ahead(chat.with_draft(draft), step.thinking, self._cache)
        prepared = await request.last()
        assert isinstance(prepared, Prepared)
        settled = isinstance(step, SettleStep)
        return {
            "settled_tokens": prepared.tokens if settled else None,
            "read_ahead_tokens": None if settled else prepared.tokens,
            "images_encoded": prepared.encoded,
            "bytes": prepared.bytes.model_dump(mode="json"),
        }

    def _content(self, step: Step) -> tuple[ContentPart, ...]:
        """A step's content with its pictures' bytes taken now."""
        if not isinstance(step, Send | Edit | DraftStep):
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
        from safetensors.torch import save_file

        tensors = {
            name: torch.frombuffer(bytearray(data), dtype=torch.float32)
            for name, data in self._logits.items()
        }
        save_file(tensors, path)


def model_settings(options: argparse.Namespace) -> ModelSettings:
    """Replay shows pictures at the processor's own limit."""
    return ModelSettings(
        path=str(Path(options.model).resolve()),
        device=options.device,
        precision=options.dtype,
        context_length=options.context,
        max_image_tokens=0,
        grid=options.grid,
    )


def _answer_line(finished: Finished) -> Line:
    stats = finished.stats.model_dump(mode="json")
    line: Line = {key: stats[key] for key in EMPTY_LINE.keys() & stats.keys()}
    return line | {
        "prompt_ids": list(finished.prompt_ids),
        "reply_ids": list(finished.reply_ids),
        "reply": finished.reply.text,
        "reasoning": finished.reply.reasoning,
        "finish_reason": finished.reason,
    }


def _error(error: ErrorInfo) -> dict[str, str]:
    return {"name": error.name, "title": error.title, "message": error.message}


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; argparse ends the process with exit code 2 when it doesn't fit."""
    parser = argparse.ArgumentParser(prog="python -m core.replay", description=__doc__)
    parser.add_argument("script", type=Path)
    parser.add_argument("--model", required=True, help="model folder")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--checkpoints", type=int, default=CacheSettings().count)
    parser.add_argument("--interval", type=int, default=CacheSettings().interval)
    parser.add_argument("--grid", type=int, default=512)
    parser.add_argument("--context", type=int, help="context length in tokens")
    parser.add_argument("--no-cache", action="store_true", help="start every step cold")
    parser.add_argument("--data", type=Path, help="data folder (default: a fresh temporary one)")
    parser.add_argument("--logits", help="safetensors file for each step's first logits")
    return parser.parse_args(arguments)


def _replay(script: Script, options: argparse.Namespace, data: Path) -> int:
    lock = DataFolderLock(data)
    try:
        replay = Replay(script, options.script.resolve().parent, data, options)
        return 0 if asyncio.run(replay.run()) else 1
    finally:
        lock.release()


def main(arguments: list[str] | None = None) -> int:
    """Run a replay from the command line and return its exit code."""
    options = parse_options(arguments)
    try:
        script = read_script(options.script)
        CacheSettings(count=options.checkpoints, interval=options.interval)
        model_settings(options)
    except InvalidRequestError as error:
        print(error.message, file=sys.stderr)
        return 2
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        print(f"{first['loc'][0]}: {first['msg']}", file=sys.stderr)
        return 2
    try:
        if options.data is not None:
            return _replay(script, options, options.data)
        with tempfile.TemporaryDirectory(prefix="waymark-replay-") as folder:
            return _replay(script, options, Path(folder))
    except WaymarkError as error:
        print(f"{error.title}: {error.message}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
