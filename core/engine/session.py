"""One running request, from conversation to reply: render, restore, prefill, decode, count.

Reads top to bottom in the order things happen. It owns no cache and no model; it is given both, and
when it ends, however it ends, what it left in the tree is whole.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from core.api.commands import Generate
from core.api.errors import PromptTooLongError, RequestCancelled
from core.api.events import Event, Finished, FinishReason, Prefilling
from core.cache.context import ContextCache, Usage
from core.cache.side import SideBranch
from core.engine import debug
from core.engine.cancel import CancelFlag
from core.engine.drafting.drafters import drafters_of
from core.engine.drafting.head import HeadDrafter
from core.engine.drafting.speculation import Speculation
from core.engine.images import Pictures, image_parts
from core.engine.loaded import LoadedModel
from core.engine.passes.captured import StepCapture
from core.engine.passes.decode import Decode
from core.engine.passes.prefill import Prefill
from core.engine.report import Report
from core.engine.stats import MessageMap, explain
from core.engine.writing.reply import Reply
from kernels.common.memory import octets


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

    @torch.inference_mode()
    def run(self) -> Finished:
        """Answer. Raises a WaymarkError when the request can't be answered at all."""
        try:
            if self._command.side:
                self._context = SideBranch(self._cache)
            else:
                self._cache.apply(self._command.cache)
            self._render()
            self._prepare_reply()
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

    def _prepare_reply(self) -> None:
        loaded = self._loaded
        size = loaded.model.vocab_size
        self._reply = Reply(self._command, self._rendered, loaded.text, size)

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
            seed=self._reply.seed,
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
                begun=self._reply.packed(),
            )
        )

    def _decode(self, prefill: Prefill) -> FinishReason:
        """Draw tokens until something ends the reply."""
        assert prefill.last_hidden is not None
        self._flag.check()
        command, loaded = self._command, self._loaded
        steps = loaded.steps.beside() if command.side else loaded.steps
        decode = Decode(
            loaded.model,
            self._context.slab,
            prefill.state,
            self._prompt.end,
            self._flag.check,
            steps,
            command.draft.skip_rollback,
        )
        if debug.integrity():
            self._context.slab.clear(self._prompt.num_tokens, self._context.context_length)
        speculation, head = self._speculation(steps)
        self._report.drafts = speculation.counts
        self._reply.begin(self._report, self._emit)
        try:
            return self._generate(prefill.last_hidden[None], decode, speculation, head)
        finally:
            decode.close()
            self._reply.end()

    def _speculation(self, steps: StepCapture) -> tuple[Speculation, HeadDrafter | None]:
        """What drafts tokens. A side request is too short to gain by it."""
        settings, model = self._command.draft, self._loaded.model
        costs = self._loaded.step_costs
        if not model.batch_invariant_steps or (self._command.side and settings.mode == "auto"):
            settings = settings.model_copy(update={"mode": "off"})
        drafters, head = drafters_of(
            settings, model, self._context.slab, self._prompt, costs, self._flag.check, steps
        )
        return Speculation(settings, drafters, model.vocab_size, costs), head

    def _generate(
        self,
        hidden: Tensor,
        decode: Decode,
        speculation: Speculation,
        head: HeadDrafter | None,
    ) -> FinishReason:
        """Draw behind `hidden` [1, hidden_size], then behind step after step. What a step computed
        behind a drafted token counts if that token is drawn, and is taken back else."""
        reply, ids = self._reply, self._reply.ids
        room = self._context.context_length - self._prompt.num_tokens
        most = reply.most(room)
        logits = self._loaded.model.logits(hidden)
        self._write_logits(logits[0])
        draft: list[int] | None = None
        captured = 0
        while len(ids) < room:
            before = len(ids)
            reason = reply.draw(logits, draft or [])
            drawn = ids[before:]
            speculation.follow(drawn, hidden)
            if draft is not None:
                accepted = sum(map(operator.eq, drawn, draft))
                decode.keep(len(drawn))
                speculation.note(len(draft), accepted, decode.num_captured == captured)
            if debug.integrity():
                debug.check_generated(decode, self._context.slab, self._prompt.end, len(ids) - 1)
            if head is not None and draft is None and self._command.logits_file is not None:
                self._write_logits(head.logits(), ".mtp")
            if reason is not None or len(ids) == room:
                return reason or "context"
            self._flag.check()
            # Behind the last drafted token one more is drawn.
            draft = speculation.draft(most - len(ids) - 1, reply.forced())
            draft = reply.fitting(draft)
            captured = decode.num_captured
            logits = decode.step([ids[-1], *draft])
            hidden = decode.hidden
        return "context"

    def _write_logits(self, logits: Tensor, suffix: str = "") -> None:
        if self._command.logits_file is not None:
            file = Path(self._command.logits_file)
            (file.with_suffix(suffix) if suffix else file).write_bytes(octets(logits.float()))

    def _finished(self, reason: FinishReason) -> Finished:
        image_id = self._loaded.text.image_token_id
        return Finished(
            request=self._command.request,
            reason=reason,
            reply=self._reply.message(complete=reason == "stop"),
            prompt_ids=tuple(self._prompt.ids(image_id if image_id is not None else 0)),
            reply_ids=tuple(self._reply.ids),
            stats=self._report.stats(),
        )
