"""One running request, from conversation to reply: render, restore, prefill, decode, count.

Reads top to bottom in the order things happen. It owns no cache and no model; it is given both, and
when it ends, however it ends, what it left in the tree is whole.
"""

from __future__ import annotations

import operator
import secrets
import time
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import torch
from torch import Tensor

from core.api.chat import AssistantMessage, ReplyIds
from core.api.commands import Generate
from core.api.errors import PromptTooLongError, RequestCancelled
from core.api.events import Event, Finished, FinishReason, Prefilling
from core.cache.context import ContextCache, Usage
from core.cache.side import SideBranch
from core.engine import debug
from core.engine.cancel import CancelFlag
from core.engine.constraint import Constraint
from core.engine.drafting.speculation import Speculation
from core.engine.images import Pictures, image_parts
from core.engine.loaded import LoadedModel
from core.engine.passes.decode import Decode
from core.engine.passes.prefill import Prefill
from core.engine.reply import ReplyStream
from core.engine.report import Report
from core.engine.sampler import Sampler, resolve
from core.engine.stats import MessageMap, explain
from kernels.common.views import octets


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
        self._context: ContextCache | SideBranch = loaded.cache
        self._command = command
        self._flag = flag
        self._emit = emit
        self._started = time.perf_counter()
        self._reply_ids: list[int] = []

    @torch.inference_mode()
    def run(self) -> Finished:
        """Answer. Raises a WaymarkError when the request can't be answered at all."""
        try:
            if self._command.side:
                self._context = SideBranch(self._cache)
            else:
                self._cache.apply(self._command.cache)
            self._render()
            self._prepare_sampling()
            self._restore()
            return self._finished(self._answer())
        except RequestCancelled:
            # What is caught later ends with numbers: this came while the prompt was made.
            return Finished.unbegun(self._command.request)
        finally:
            self._context.end_use()
            self._loaded.catalog.drop_fresh()

    def _render(self) -> None:
        """From messages to a prompt that fits the context."""
        command, loaded = self._command, self._loaded
        parts = image_parts(command.conversation)
        self._pictures = Pictures(
            loaded.model, loaded.catalog, parts, self._context.embeddings, self._flag.check
        )
        self._rendered = loaded.text.render(
            command.conversation,
            self._pictures.segments,
            command.thinking,
            loaded.settings.grid,
        )
        self._prompt = self._rendered.prompt
        length, limit = self._prompt.num_tokens, loaded.info.context_length
        if length > limit:
            raise PromptTooLongError(
                f"It is {length:,} tokens long, and the context holds {limit:,}. Nothing was cut "
                "off.",
                length,
            )

    def _prepare_sampling(self) -> None:
        loaded = self._loaded
        self._sampling = resolve(self._command.sampling, loaded.text.sampling_defaults)
        seed = self._sampling.seed
        self._seed = secrets.randbits(63) if seed is None else seed
        ids = [token for part in self._prompt.segments for token in getattr(part, "ids", ())]
        vocab_size = loaded.model.vocab_size
        self._sampler = Sampler(self._sampling, ids, vocab_size, self._seed, loaded.drawing)
        for token_id in self._rendered.begun:
            self._sampler.accept(token_id)
        form = self._command.format
        # Where blanks count, those behind a thought are the answer's.
        exact = form is not None and form.kind not in ("json", "json_schema")
        self._reader = loaded.text.reply_reader(self._rendered, self._sampling.stop, exact)
        self._constraint = Constraint(form, loaded.text, self._rendered, self._command.thinking)

    def _restore(self) -> None:
        """Go back to the deepest place of the prompt, and say why not deeper."""
        command, cache, prompt = self._command, self._cache, self._prompt
        starts = self._rendered.message_starts
        messages = MessageMap.of(command.conversation, starts)
        restored = self._context.restore(prompt, Usage(command.chat, messages.roles(prompt)))
        self._restored = restored
        if debug.integrity():
            debug.check(self._loaded, prompt, restored, self._context.slab, self._pictures)
        self._report = Report(
            started=self._started,
            prompt=prompt,
            restored=restored,
            cache=cache,
            pictures=self._pictures,
            miss=None if command.side else explain(prompt, restored, messages, cache, command.chat),
            context_length=self._context.context_length,
            message_starts=tuple(start.value for start in starts),
            seed=self._seed,
        )

    def _answer(self) -> FinishReason:
        try:
            return self._decode(self._prefill())
        except RequestCancelled:
            return "cancelled"

    def _prefill(self) -> Prefill:
        """Evaluate what is left of the prompt, telling how far it is after each run."""
        prefill = Prefill(
            self._loaded.model, self._context, self._restored, self._pictures, self._flag.check
        )
        planned = self._context.planned(self._prompt, self._command.cache)
        self._tell_progress()
        self._stop_here_if_asked()
        began = time.perf_counter()
        wanted, stop = self._command.cancel_prefill_after_tokens, None
        if wanted is not None:
            stop = self._restored.cut.token.value + wanted
        for done in prefill.run(self._prompt, planned, stop):
            self._report.evaluated_to = done
            self._tell_progress()
            self._stop_here_if_asked()
        self._report.prefill_s = time.perf_counter() - began
        self._report.note_throughput()
        return prefill

    def _stop_here_if_asked(self) -> None:
        """A script can stop a prefill at an exact place, as a user would by chance."""
        wanted = self._command.cancel_prefill_after_tokens
        if wanted is not None and self._report.evaluated_tokens >= wanted:
            self._flag.set()

    def _tell_progress(self) -> None:
        self._emit(
            Prefilling(
                request=self._command.request,
                done=self._report.evaluated_to,
                stats=self._report.stats(),
                begun=self._packed_ids(),
            )
        )

    def _decode(self, prefill: Prefill) -> FinishReason:
        """Draw tokens until something ends the reply."""
        assert prefill.last_hidden is not None
        self._flag.check()
        logits = self._loaded.model.logits(prefill.last_hidden[None])
        self._write_logits(logits[0])
        command, loaded = self._command, self._loaded
        decode = Decode(
            loaded.model,
            self._context.slab,
            prefill.state,
            self._prompt.end,
            self._flag.check,
            loaded.steps.beside() if command.side else loaded.steps,
            command.draft.skip_rollback,
        )
        if debug.integrity():
            self._context.slab.clear(self._prompt.num_tokens, self._context.context_length)
        speculation = self._speculation()
        self._report.drafts = speculation.counts
        stream = ReplyStream(command.request, self._report, self._emit)
        try:
            return self._generate(logits, decode, speculation, stream)
        finally:
            decode.close()
            last = self._reader.close()
            stream.push(last.answer, last.reasoning, [])
            stream.flush()

    def _speculation(self) -> Speculation:
        """What drafts tokens. A side request is too short to gain by it."""
        settings, model = self._command.draft, self._loaded.model
        if not model.joins_steps or (self._command.side and settings.mode == "auto"):
            settings = settings.model_copy(update={"mode": "off"})
        return Speculation(settings, self._prompt, model.vocab_size, self._loaded.step_costs)

    def _generate(
        self, logits: Tensor, decode: Decode, speculation: Speculation, stream: ReplyStream
    ) -> FinishReason:
        """Draw from `logits` [1, vocab], then from those of step after step. What a step computed
        behind a drafted token counts if that token is drawn, and is taken back else."""
        ids = self._reply_ids
        room = self._context.context_length - self._prompt.num_tokens
        ends = room, self._sampling.max_tokens, self._command.stop_after_tokens
        most = min(filter(None, ends), default=0)
        draft: list[int] | None = None
        while len(ids) < room:
            before = len(ids)
            reason = self._draw_rows(logits, draft or [], stream)
            drawn = ids[before:]
            if draft is not None:
                accepted = sum(map(operator.eq, drawn, draft))
                decode.keep(len(drawn))
                speculation.note(len(draft), accepted)
            if debug.integrity():
                debug.check_generated(decode, self._context.slab, self._prompt.end, len(ids) - 1)
            if reason is not None or len(ids) == room:
                return reason or "context"
            self._flag.check()
            speculation.follow(drawn)
            # Behind the last drafted token one more is drawn.
            draft = speculation.draft(most - len(ids) - 1, self._constraint.forced())
            draft = self._constraint.fitting(draft)
            logits = decode.step([ids[-1], *draft])
        return "context"

    def _draw_rows(
        self, logits: Tensor, draft: list[int], stream: ReplyStream
    ) -> FinishReason | None:
        """Draw from each row of `logits`, as long as what is drawn is what was drafted."""
        for row, drafted in zip_longest(logits, draft):
            reason = self._draw(row, stream)
            if reason is not None or self._reply_ids[-1] != drafted:
                return reason
        return None

    def _draw(self, logits: Tensor, stream: ReplyStream) -> FinishReason | None:
        """Sample one token and say why the reply ends here, if it does."""
        index = self._prompt.num_tokens + len(self._reply_ids)
        token_id = self._sampler.sample(self._constraint.limit(logits), index)
        self._sampler.accept(token_id)
        self._constraint.accept(token_id)
        self._reply_ids.append(token_id)
        self._report.count_token()
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
            Path(self._command.logits_file).write_bytes(octets(logits.float()))

    def _finished(self, reason: FinishReason) -> Finished:
        reply = AssistantMessage(
            text=self._reader.answer,
            reasoning=self._reader.reasoning,
            ids=self._packed_ids(),
        )
        image_id = self._loaded.text.image_token_id
        return Finished(
            request=self._command.request,
            reason=reason,
            reply=reply,
            prompt_ids=tuple(self._prompt.ids(image_id if image_id is not None else 0)),
            reply_ids=tuple(self._reply_ids),
            stats=self._report.stats(),
        )

    def _packed_ids(self) -> ReplyIds:
        """The reply's ids as they are stored: at first those of a reply that is gone on with."""
        return ReplyIds.pack(
            self._reader.reply_ids(),
            self._loaded.text.tokenizer_fingerprint,
            self._rendered.opens_reasoning,
        )
