"""Idle work: prefills a reply as history shows it, a stopped one first as *Continue* resumes it, or
a draft, to the states that a request would make."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile

import torch

from core.api.chat import (
    AssistantMessage,
    Conversation,
    Message,
    TextPart,
    ToolMessage,
    UserMessage,
)
from core.api.commands import IdleWork, Predict, PrefillReply
from core.api.events import Predicted, Prepared
from core.api.prompt import CutKind, Image, Prompt, Run
from core.cache.context import Usage
from core.engine.cancel import CancelFlag
from core.engine.images import Pictures
from core.engine.loaded import LoadedModel
from core.engine.passes.prefill import Prefill
from core.engine.stats import (
    MessageMap,
    cache_bytes,
    context_parts,
    held_checkpoints,
    note_throughput,
)
from core.text.chat_text import RenderedPrompt

# Further typing can change how the last words are split into tokens; no word has more than this.
DRAFT_MARGIN = 64
# Two next messages that share no first token: the common beginning of both prompts is stable.
DUMMIES = ("A", "1")


class IdlePrefill:
    def __init__(
        self, loaded: LoadedModel, command: IdleWork[Prepared] | Predict, flag: CancelFlag
    ) -> None:
        self._loaded = loaded
        self._command = command
        self._flag = flag

    @torch.inference_mode()
    def run(self) -> Prepared:
        """Raises RequestCancelled; finished runs are kept."""
        loaded, command = self._loaded, self._command
        parts = command.conversation.pictures
        try:
            pictures = Pictures(
                loaded.model, loaded.catalog, parts, loaded.cache.embeddings, self._flag.check
            )
            images = pictures.segments
            shown = self._render(command.conversation, images)
            settles = isinstance(command, PrefillReply)
            find_stable = stable_reply if settles else stable_draft
            messages = MessageMap.of(command.conversation, shown.message_starts)
            tokens = 0
            if settles and _is_paused(command.conversation):
                # Continuing is likelier than a new turn, which mostly shares its runs.
                tokens += self._prefill(shown.prompt, pictures, messages)
                loaded.cache.end_use()
            stable = find_stable(self._prompt, command.conversation, images)
            if stable is not None:
                tokens += self._prefill(stable, pictures, messages)
        finally:
            loaded.cache.end_use()
            loaded.catalog.drop_fresh()
        # A settled reply is in the context as later turns show it.
        settled = stable if settles else None
        return self._prepared(tokens, pictures, shown, settled or shown.prompt)

    def predict(self) -> Predicted:
        loaded, conversation = self._loaded, self._command.conversation
        try:
            images = loaded.catalog.segments(conversation.pictures, self._flag.check)
            prompt = whole = self._prompt(conversation, images)
            if not _awaits_reply(conversation):
                prompt = stable_reply(self._prompt, conversation, images) or whole
        finally:
            loaded.catalog.drop_fresh()
        foreseen = loaded.cache.foresee(prompt, self._command.cache)
        return Predicted(
            request=self._command.request, prompt_tokens=whole.num_tokens, **foreseen._asdict()
        )

    def _prepared(
        self, tokens: int, pictures: Pictures, shown: RenderedPrompt, prompt: Prompt
    ) -> Prepared:
        cache = self._loaded.cache
        keys = cache.tree.keys(prompt)
        on_disk = cache.disk.num_held(keys)
        held = max(len(cache.tree.match(keys)), on_disk)
        parts = context_parts(prompt, held, keys, cache, on_disk)
        return Prepared(
            request=self._command.request,
            tokens=tokens,
            encoded=pictures.num_encoded,
            bytes=cache_bytes(cache),
            prompt_tokens=shown.prompt.num_tokens,
            parts=tuple(part for part in parts if part.source == "reused"),
            checkpoints=held_checkpoints(cache, keys),
            message_starts=tuple(start.value for start in shown.message_starts),
        )

    def _render(self, conversation: Conversation, images: list[Image]) -> RenderedPrompt:
        loaded = self._loaded
        return loaded.text.render(
            conversation, images, self._command.thinking, loaded.settings.grid
        )

    def _prompt(self, conversation: Conversation, images: list[Image]) -> Prompt:
        return self._render(conversation, images).prompt

    def _prefill(self, prompt: Prompt, pictures: Pictures, messages: MessageMap) -> int:
        cache, settings = self._loaded.cache, self._command.cache
        cache.apply(settings)
        fits = prompt.num_tokens <= self._loaded.info.context_length
        if (cache.recurrent and settings.count == 0) or not fits:
            return 0
        usage = Usage(self._command.chat, messages.roles(prompt), turn=False)
        if cache.holds(prompt, usage):
            # Restoring it would only displace the sequence worked on last.
            return 0
        restored = cache.restore(prompt, usage)
        prefill = Prefill(self._loaded.model, cache, restored, pictures, self._flag.check)
        planned = cache.planned(prompt, settings)
        if _is_paused(self._command.conversation):
            # An edited reply goes on from there, in the next turn too.
            planned |= {run for run in prompt.runs if run.ends(CutKind.PAUSE)}
        start, began = restored.cut.token.value, time.perf_counter()
        tokens = [start, *prefill.run(prompt, planned)][-1] - start
        note_throughput(cache, tokens, time.perf_counter() - began, pictures)
        return tokens


Render = Callable[[Conversation, list[Image]], Prompt]


def stable_reply(render: Render, conversation: Conversation, images: list[Image]) -> Prompt | None:
    """Up to the last reply's end of turn, as any next message will show it."""
    one, other = (render(_with_next(conversation, dummy), images) for dummy in DUMMIES)
    common = takewhile(lambda pair: pair[0] == pair[1], zip(one.runs, other.runs, strict=False))
    return _up_to_last(one, [run for run, _ in common if run.ends(CutKind.MESSAGE_END)])


def stable_draft(render: Render, conversation: Conversation, images: list[Image]) -> Prompt | None:
    """Up to the last end of a picture or document, or a grid cut well before the caret."""
    prompt = render(conversation, images)
    ends = [run for run in prompt.runs if run.ends(CutKind.MESSAGE_END)]
    caret = (ends or prompt.runs)[-1].end.token.value
    stable = [
        run
        for run in prompt.runs
        if run.end.token.value < caret
        and (
            run.ends(CutKind.IMAGE_END | CutKind.PART_END | CutKind.MESSAGE_END)
            or (run.ends(CutKind.GRID) and caret - run.end.token.value >= DRAFT_MARGIN)
        )
    ]
    return _up_to_last(prompt, stable)


def _is_paused(conversation: Conversation) -> bool:
    last = conversation.messages[-1] if conversation.messages else None
    return isinstance(last, AssistantMessage) and last.ids is not None and last.ids.is_paused


def _awaits_reply(conversation: Conversation) -> bool:
    last = conversation.messages[-1] if conversation.messages else None
    return not isinstance(last, AssistantMessage) or _is_paused(conversation)


def _with_next(conversation: Conversation, text: str) -> Conversation:
    last = conversation.messages[-1]
    following: tuple[Message, ...] = (UserMessage(content=(TextPart(text=text),)),)
    if isinstance(last, AssistantMessage) and last.calls:
        following = tuple(
            ToolMessage(text=text, call=call.id, name=call.name) for call in last.calls
        )
    return conversation.model_copy(update={"messages": (*conversation.messages, *following)})


def _up_to_last(prompt: Prompt, runs: Sequence[Run]) -> Prompt | None:
    kept = prompt.runs[: prompt.runs.index(runs[-1]) + 1] if runs else ()
    return replace(prompt, segments=tuple(run.content for run in kept)) if kept else None
