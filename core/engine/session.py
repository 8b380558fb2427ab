"""One running request, from conversation to reply: render, restore, prefill, decode, count.

Reads top to bottom in the order things happen. It owns no cache and no model; it is given both, and
when it ends, however it ends, what it left in the tree is whole.
"""

from __future__ import annotations

import ctypes
import secrets
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from core.api.chat import AssistantMessage, ReplyIds
from core.api.commands import Generate
from core.api.errors import PromptTooLongError, RequestCancelled
from core.api.events import (
    CacheBytes,
    ContextPart,
    Event,
    Finished,
    FinishReason,
    Prefilling,
    RequestStats,
)
from core.cache.context import Restored
from core.engine.cancel import CancelFlag
from core.engine.decode import Decode
from core.engine.images import Pictures, image_parts
from core.engine.loaded import LoadedModel
from core.engine.prefill import Prefill
from core.engine.reply import ReplyStream
from core.engine.sampler import Sampler, resolve
from core.engine.stats import MessageMap, context_parts, explain, held_checkpoints, place


class Session:
    """Runs one Generate command on a loaded model, emitting events; `run` returns the last one."""

    def __init__(
        self,
        loaded: LoadedModel,
        command: Generate,
        flag: CancelFlag,
        emit: Callable[[Event], None],
    ) -> None:
        self._loaded = loaded
        self._cache = loaded.cache
        self._command = command
        self._flag = flag
        self._emit = emit
        self._started = time.perf_counter()
        self._first_token_at: float | None = None
        self._prefill_s: float | None = None

    @torch.inference_mode()
    def run(self) -> Finished:
        """Answer. Raises a WaymarkError when the request can't be answered at all."""
        command, loaded = self._command, self._loaded
        parts = image_parts(command.conversation)
        self._pictures = Pictures(
            loaded.model, loaded.catalog, parts, self._cache.embeddings, self._flag.check
        )
        images = loaded.catalog.segments(parts)
        self._rendered = loaded.text.render(
            command.conversation, images, command.thinking, loaded.settings.grid
        )
        self._prompt = self._rendered.prompt
        self._refuse_too_long()
        self._prepare_sampling()
        self._cache.apply(command.cache)
        self._restored = self._cache.restore(self._prompt)
        messages = MessageMap.of(command.conversation, self._rendered.message_starts)
        self._miss = explain(self._prompt, self._restored, messages, self._cache)
        self._reader = loaded.text.reply_reader(self._rendered, self._sampling.stop)
        self._reply_ids: list[int] = []
        try:
            reason = self._decode(self._prefill())
        except RequestCancelled:
            reason = "cancelled"
        finally:
            loaded.catalog.drop_patches()
        return self._finished(reason)

    def _refuse_too_long(self) -> None:
        length, limit = self._prompt.num_tokens, self._loaded.info.context_length
        if length > limit:
            raise PromptTooLongError(
                f"The conversation is {length:,} tokens long and the context holds {limit:,}. "
                "Nothing was cut off: shorten the conversation or load the model with a longer "
                "context."
            )

    def _prepare_sampling(self) -> None:
        loaded = self._loaded
        self._sampling = resolve(self._command.sampling, loaded.text.sampling_defaults)
        seed = self._sampling.seed
        self._seed = secrets.randbits(63) if seed is None else seed
        ids = [token for run in self._prompt.segments for token in getattr(run, "ids", ())]
        self._sampler = Sampler(self._sampling, ids, loaded.model.vocab_size, self._seed)

    def _prefill(self) -> Prefill:
        """Evaluate what is left of the prompt, telling how far it is after each run."""
        start = self._restored.cut.token.value
        self._evaluated_to = start
        prefill = Prefill(
            self._loaded.model, self._cache, self._restored, self._pictures, self._flag.check
        )
        planned = self._cache.planned(self._prompt, self._command.cache)
        self._emit(Prefilling(request=self._command.request, done=start, stats=self._stats()))
        began = time.perf_counter()
        for done in prefill.run(self._prompt, planned):
            self._evaluated_to = done
            self._emit(Prefilling(request=self._command.request, done=done, stats=self._stats()))
        self._prefill_s = time.perf_counter() - began
        return prefill

    def _decode(self, prefill: Prefill) -> FinishReason:
        """Draw tokens until something ends the reply."""
        assert prefill.last_hidden is not None
        self._flag.check()
        logits = self._loaded.model.logits(prefill.last_hidden[None])[0]
        self._write_logits(logits)
        decode = Decode(
            self._loaded.model, self._cache.slab, prefill.state, self._prompt.end, self._flag.check
        )
        stream = ReplyStream(self._command.request, self._emit)
        room = self._loaded.info.context_length - self._prompt.num_tokens
        try:
            while len(self._reply_ids) < room:
                reason = self._draw(logits, stream)
                if reason is not None:
                    return reason
                self._flag.check()
                logits = decode.step(self._reply_ids[-1])
            return "context"
        finally:
            last = self._reader.close()
            stream.push(last.answer, last.reasoning, [])
            stream.flush()

    def _draw(self, logits: Tensor, stream: ReplyStream) -> FinishReason | None:
        """Sample one token and say why the reply ends here, if it does."""
        index = self._prompt.num_tokens + len(self._reply_ids)
        token_id = self._sampler.sample(logits, index)
        self._sampler.accept(token_id)
        self._first_token_at = self._first_token_at or time.perf_counter()
        self._reply_ids.append(token_id)
        delta = self._reader.push(token_id)
        stream.push(delta.answer, delta.reasoning, [token_id])
        if self._reader.finished:
            return "stop"
        if len(self._reply_ids) == self._command.stop_after_tokens:
            return "cancelled"
        if len(self._reply_ids) == self._sampling.max_tokens:
            return "length"
        return None

    def _write_logits(self, logits: Tensor) -> None:
        if self._command.logits_file is not None:
            row = logits.float().cpu().contiguous()
            Path(self._command.logits_file).write_bytes(
                ctypes.string_at(row.data_ptr(), row.nbytes)
            )

    def _finished(self, reason: FinishReason) -> Finished:
        reply = AssistantMessage(
            text=self._reader.answer,
            reasoning=self._reader.reasoning,
            ids=ReplyIds.pack(
                self._reader.reply_ids(),
                self._loaded.text.tokenizer_fingerprint,
                self._rendered.opens_reasoning,
            ),
        )
        image_id = self._loaded.text.image_token_id
        return Finished(
            request=self._command.request,
            reason=reason,
            reply=reply,
            prompt_ids=tuple(self._prompt.ids(image_id if image_id is not None else 0)),
            reply_ids=tuple(self._reply_ids),
            stats=self._stats(),
        )

    def _stats(self) -> RequestStats:
        """The counters as they stand now."""
        restored, prompt = self._restored, self._prompt
        reused = restored.cut.token.value
        return RequestStats(
            prompt_tokens=prompt.num_tokens,
            prompt_positions=prompt.end.position.value,
            reused_tokens=reused,
            evaluated_tokens=self._evaluated_to - reused,
            reply_tokens=len(self._reply_ids),
            images_in_prompt=len(prompt.images),
            images_encoded=self._pictures.num_encoded,
            restored_from=restored.tier,
            restored_at=place(restored),
            checkpoints=held_checkpoints(self._cache, restored.keys),
            checkpoints_held=self._cache.num_states(),
            miss=self._miss,
            ttft_s=self._since_start(self._first_token_at),
            prefill_s=self._prefill_s,
            decode_tokens_per_s=self._decode_speed(),
            bytes=self._bytes(),
            parts=self._parts(restored),
            context_length=self._loaded.info.context_length,
            seed=self._seed,
        )

    def _since_start(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self._started

    def _decode_speed(self) -> float | None:
        """Tokens after the first over the time since the first."""
        steps = len(self._reply_ids) - 1
        if self._first_token_at is None or steps < 1:
            return None
        return steps / max(1e-9, time.perf_counter() - self._first_token_at)

    def _bytes(self) -> CacheBytes:
        cache = self._cache
        return CacheBytes(
            kv=cache.kv_bytes(),
            checkpoints=cache.state_bytes(),
            embeddings=cache.embeddings.num_bytes,
        )

    def _parts(self, restored: Restored) -> tuple[ContextPart, ...]:
        parts = context_parts(self._prompt, restored.num_runs)
        if not self._reply_ids:
            return parts
        end = self._prompt.num_tokens
        reply = ContextPart(start=end, end=end + len(self._reply_ids), kind="text", source="reply")
        return (*parts, reply)
