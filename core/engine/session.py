"""One request from top to bottom: render, restore, prefill, decode, count."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from core.api.commands import Generate
from core.api.errors import PromptTooLongError, RequestCancelled
from core.api.events import AnswerToken, Event, Finished, FinishReason, Generated, Prefilling
from core.api.params import DraftSettings, Probe
from core.cache.context import ContextCache, Usage
from core.cache.side import SideBranch
from core.engine import debug
from core.engine.cancel import CancelFlag
from core.engine.drafting.speculation import Drafter, HeadDrafter, LookupDrafter, Speculation
from core.engine.images import Pictures
from core.engine.loaded import LoadedModel
from core.engine.passes.captured import StepCapture
from core.engine.passes.decode import Decode
from core.engine.passes.prefill import Prefill
from core.engine.reply import Reply
from core.engine.stats import MessageMap, Report, explain, note_throughput
from kernels.common.memory import octets


class Session:
    def __init__(
        self,
        loaded: LoadedModel,
        command: Generate,
        flag: CancelFlag,
        emit: Callable[[Event], None],
    ) -> None:
        self._loaded = loaded
        self._cache = loaded.cache
        self._context: ContextCache | SideBranch = loaded.cache
        self._command = command
        self._probe = command.probe or Probe()
        self._flag = flag
        self._emit = emit
        self._started = time.perf_counter()

    @torch.inference_mode()
    def run(self) -> Finished:
        """Returns the last event. Raises a WaymarkError."""
        try:
            if self._command.side:
                self._context = SideBranch(self._cache)
            else:
                self._cache.apply(self._command.cache)
            self._render()
            self._restore()
            return self._finished(self._answer())
        except RequestCancelled:
            # During prompt making; a later stop ends with numbers, in `_answer`.
            return Finished.unbegun(self._command.request)
        finally:
            self._context.end_use()
            self._loaded.catalog.drop_fresh()

    def _render(self) -> None:
        command, loaded = self._command, self._loaded
        parts = command.conversation.pictures
        self._pictures = Pictures(
            loaded.model, loaded.catalog, parts, self._context.embeddings, self._flag.check
        )
        self._rendered = loaded.text.render(
            command.conversation, self._pictures.segments, command.thinking, loaded.settings.grid
        )
        self._prompt = self._rendered.prompt
        length, limit = self._prompt.num_tokens, loaded.info.context_length
        if length > limit:
            raise PromptTooLongError(
                f"The messages take {length:,} tokens, and the context holds {limit:,}. Nothing "
                "was cut off.",
                length,
            )
        self._reply = Reply(command, self._rendered, loaded.text, loaded.model.vocab_size)

    def _restore(self) -> None:
        command, cache, prompt = self._command, self._cache, self._prompt
        starts = self._rendered.message_starts
        messages = MessageMap.of(command.conversation, starts)
        restored = self._context.restore(prompt, Usage(command.chat, messages.roles(prompt)))
        self._restored = restored
        if debug.integrity():
            debug.check(self._loaded, prompt, restored, self._context.kv_buffer, self._pictures)
        changed = self._loaded.tools_changed(command.chat, command.conversation.tools)
        self._report = Report(
            started=self._started,
            prompt=prompt,
            restored=restored,
            cache=cache,
            pictures=self._pictures,
            miss=None
            if command.side
            else explain(prompt, restored, messages, cache, command.chat, changed),
            context_length=self._context.context_length,
            message_starts=tuple(start.value for start in starts),
            seed=self._reply.seed,
        )

    def _answer(self) -> FinishReason:
        try:
            return self._decode(self._prefill())
        except RequestCancelled:
            return "cancelled"

    def _prefill(self) -> Prefill:
        prefill = Prefill(
            self._loaded.model, self._context, self._restored, self._pictures, self._flag.check
        )
        planned = self._context.planned(self._prompt, self._command.cache)
        stop_after = self._probe.cancel_prefill_after_tokens
        stop = None if stop_after is None else self._restored.cut.token.value + stop_after
        self._report_progress(stop)
        began = time.perf_counter()
        for done in prefill.run(self._prompt, planned, stop):
            self._report.evaluated_to = done
            self._report_progress(stop)
        self._report.prefill_s = seconds = time.perf_counter() - began
        note_throughput(self._cache, self._report.evaluated_tokens, seconds, self._pictures)
        return prefill

    def _report_progress(self, stop: int | None) -> None:
        self._emit(
            Prefilling(
                request=self._command.request,
                done=self._report.evaluated_to,
                stats=self._report.stats(),
                begun=self._reply.packed(),
            )
        )
        if stop is not None and self._report.evaluated_to >= stop:
            self._flag.set()

    def _decode(self, prefill: Prefill) -> FinishReason:
        assert prefill.last_hidden is not None
        self._flag.check()
        command, loaded = self._command, self._loaded
        steps = loaded.steps.separate() if command.side else loaded.steps
        decode = Decode(
            loaded.model,
            self._context.kv_buffer,
            prefill.state,
            self._prompt.end,
            self._flag.check,
            steps,
            self._probe.skip_rollback,
        )
        if debug.integrity():
            self._context.kv_buffer.clear(self._prompt.num_tokens, self._context.context_length)
        speculation, head = self._speculation(steps)
        self._report.drafts = speculation.counts
        self._reply.begin(self._report.count_token, self._send_text)
        try:
            return self._generate(prefill.last_hidden[None], decode, speculation, head)
        finally:
            decode.close()
            self._reply.end()

    def _speculation(self, steps: StepCapture) -> tuple[Speculation, HeadDrafter | None]:
        settings, model = self._command.draft, self._loaded.model
        costs, mode, head = self._loaded.step_costs, settings.mode, None
        # A side request is too short to gain from drafts.
        if not model.batch_invariant_steps or (self._command.side and mode == "auto"):
            settings, mode = DraftSettings(mode="off"), "off"
        drafters: list[Drafter] = []
        if mode in {"auto", "lookup", "both"}:
            drafters.append(LookupDrafter(self._prompt))
        if mode in {"auto", "mtp", "both"} and model.has_mtp:
            check, kv_buffer = self._flag.check, self._context.kv_buffer
            head_steps = steps.head(model, kv_buffer)
            head = HeadDrafter(model, kv_buffer, self._prompt, costs, check, head_steps)
            drafters.append(head)
        noise = self._probe.draft_noise
        return Speculation(settings, drafters, model.vocab_size, costs, noise), head

    def _generate(
        self, hidden: Tensor, decode: Decode, speculation: Speculation, head: HeadDrafter | None
    ) -> FinishReason:
        """Sample from `hidden` [1, hidden_size], then step after step, rolling back rows after a
        draft's first wrong token."""
        reply, ids = self._reply, self._reply.ids
        room = self._context.context_length - self._prompt.num_tokens
        most = reply.most(room)
        logits = self._loaded.model.logits(hidden)
        self._write_logits(logits[0])
        draft: list[int] | None = None
        captured = 0
        while len(ids) < room:
            before = len(ids)
            reason = reply.sample(logits, draft or [])
            sampled = ids[before:]
            speculation.follow(sampled, hidden)
            if draft is not None:
                accepted = sum(map(operator.eq, sampled, draft))
                decode.keep(len(sampled))
                speculation.note(len(draft), accepted, decode.num_captured == captured)
            if debug.integrity():
                debug.check_generated(
                    decode, self._context.kv_buffer, self._prompt.end, len(ids) - 1
                )
            if head is not None and draft is None and self._probe.logits_file is not None:
                self._write_logits(head.logits(), ".mtp")
            if reason is not None or len(ids) == room:
                return reason or "context"
            self._flag.check()
            # After the last drafted token one more is sampled.
            draft = speculation.draft(most - len(ids) - 1, reply.constraint.forced())
            draft = reply.constraint.fitting(draft)
            captured = decode.num_captured
            logits = decode.step([ids[-1], *draft])
            hidden = decode.hidden
        return "context"

    def _send_text(
        self, answer: str, reasoning: str, ids: tuple[int, ...], logprobs: tuple[AnswerToken, ...]
    ) -> None:
        self._emit(
            Generated(
                request=self._command.request,
                answer=answer,
                reasoning=reasoning,
                ids=ids,
                logprobs=logprobs,
                ttft_s=self._report.ttft_s,
                decode_tokens_per_s=self._report.decode_tokens_per_s,
            )
        )

    def _write_logits(self, logits: Tensor, suffix: str = "") -> None:
        if self._probe.logits_file is not None:
            file = Path(self._probe.logits_file)
            (file.with_suffix(suffix) if suffix else file).write_bytes(octets(logits.float()))

    def _finished(self, reason: FinishReason) -> Finished:
        prompt_ids: list[int] = []
        if self._command.probe is not None:
            image_id = self._loaded.text.image_token_id
            prompt_ids = self._prompt.ids(image_id if image_id is not None else 0)
        return Finished(
            request=self._command.request,
            reason=reason,
            reply=self._reply.message(complete=reason == "stop"),
            prompt_ids=tuple(prompt_ids),
            reply_ids=tuple(self._reply.ids),
            stop_string=self._reply.stop_string,
            stats=self._report.stats(),
        )
