"""An engine with clocks: a request's time by part, and how many tokens it fed.

The clocks wrap the engine's own calls, so the numbers are those of the app. Reported counts are
compared with what went through the model.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar
from unittest import mock

from torch import Tensor

from core.api.chat import Conversation, Message
from core.api.commands import Forget, Generate, LoadModel, PrefillDraft, PrefillReply
from core.api.events import Prepared
from core.api.params import CacheSettings, ModelSettings, SamplingParams
from core.api.prompt import CutKind, Prompt
from core.api.stats import RequestStats
from core.cache.context import ContextCache
from core.engine.cancel import CancelFlag
from core.engine.engine import Engine
from core.engine.loaded import LoadedModel
from kernels.dispatch import Backend
from kernels.ops import Attend
from kernels.self_test.validation import validated

FIRST_TOKEN = SamplingParams(temperature=0, max_tokens=1)
_P = ParamSpec("_P")
_R = TypeVar("_R")


# The last that chooses them before a model is read.
KERNELS = "core.engine.loaded.validated"


def attending(wrap: Callable[[Attend], Attend]) -> Callable[..., Backend]:
    """Replaces the function named by `KERNELS`, with `wrap` around attention."""

    def chosen(*args: Any) -> Backend:
        kernels = validated(*args)
        ops = kernels.ops
        runs, steps = wrap(ops.causal_attention), wrap(ops.step_attention)
        wrapped = replace(ops, causal_attention=runs, step_attention=steps)
        return replace(kernels, ops=wrapped)

    return chosen


class Clock:
    """Seconds by name since the last `reset`, and the tokens fed before the first was drawn."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.fed = 0
        self.logits: Tensor | None = None

    def timed(self, name: str, call: Callable[_P, _R]) -> Callable[_P, _R]:
        def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            began = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - began

        return run


@dataclass(frozen=True)
class Reading:
    """The cost of a request: seconds to the first token by part, and its logits."""

    seconds: float
    model: float
    attention: float
    restore: float
    render: float
    stats: RequestStats
    logits: Tensor

    @property
    def evaluated(self) -> int:
        return self.stats.evaluated_tokens

    @property
    def beside_attention(self) -> float:
        """Seconds to the first token that attention over the context does not explain."""
        return self.seconds - self.attention

    @property
    def overhead(self) -> float:
        """Seconds to the first token outside the model and the restore."""
        return self.seconds - self.model - self.restore


class Rig:
    """One engine on one model folder; `close` puts the clocks away."""

    def __init__(self, settings: ModelSettings, cache: CacheSettings | None = None) -> None:
        self.settings = settings
        self.cache_settings = cache or CacheSettings()
        self.clock = Clock()
        self.engine = Engine()
        self._patches = ExitStack()
        self._open()

    @property
    def loaded(self) -> LoadedModel:
        assert self.engine.loaded is not None
        return self.engine.loaded

    @property
    def cache(self) -> ContextCache:
        return self.loaded.cache

    def close(self) -> None:
        self._patches.close()
        self.engine.unload()

    def reopen(self) -> None:
        """Quit and start again: a new engine on the same cache folder, nothing in memory."""
        self.close()
        self._open()

    def ask(
        self,
        messages: Sequence[Message],
        cache: CacheSettings | None = None,
        sampling: SamplingParams = FIRST_TOKEN,
        **more: Any,
    ) -> Reading:
        """Read a conversation up to the first token of its answer."""
        command = Generate(
            request=1,
            conversation=Conversation(messages=tuple(messages)),
            chat="bench",
            cache=cache or self.cache_settings,
            sampling=sampling,
            **more,
        )
        self.clock.reset()
        finished = self.engine.generate(command, CancelFlag(), lambda event: None)
        stats, seconds = finished.stats, self.clock.seconds
        assert stats.ttft_s is not None and stats.prefill_s is not None
        assert stats.evaluated_tokens == self.clock.fed and self.clock.logits is not None
        return Reading(
            seconds=stats.ttft_s,
            model=stats.prefill_s,
            attention=seconds["attention"],
            restore=seconds["restore"],
            render=seconds["render"],
            stats=stats,
            logits=self.clock.logits,
        )

    def settle(self, messages: Sequence[Message], **more: Any) -> Prepared:
        """Read the reply that ends a conversation, as the app does in idle time."""
        return self._prepare(PrefillReply, messages, more)

    def read_ahead(self, messages: Sequence[Message], **more: Any) -> Prepared:
        """Read the draft that ends a conversation, as the app does while it is typed."""
        return self._prepare(PrefillDraft, messages, more)

    def write(self) -> int:
        """Write to disk what is worth keeping; returns the bytes that came to be there."""
        before = self.cache.disk.num_bytes
        while self.engine.write_some(CancelFlag()):
            pass
        return self.cache.disk.num_bytes - before

    def clear(self) -> None:
        """Forget everything, in memory and on disk: the next request is cold."""
        self.engine.forget(Forget(request=3, chat=None, cache_folder=self.settings.cache_folder))
        self.engine.clear_cache()

    def prompt(self, messages: Sequence[Message]) -> Prompt:
        conversation = Conversation(messages=tuple(messages))
        images = self.loaded.catalog.segments(conversation.pictures, lambda: None)
        rendered = self.loaded.text.render(conversation, images, None, self.loaded.settings.grid)
        return rendered.prompt

    def num_new(self, messages: Sequence[Message]) -> int:
        """Tokens of the last message, with what the template puts before and after it."""
        prompt = self.prompt(messages)
        ends = [run.end.token.value for run in prompt.runs if run.ends(CutKind.MESSAGE_END)]
        return prompt.num_tokens - (ends[-2] if len(ends) > 1 else 0)

    def _prepare(
        self,
        kind: type[PrefillReply] | type[PrefillDraft],
        messages: Sequence[Message],
        more: dict[str, Any],
    ) -> Prepared:
        self.clock.reset()
        command = kind(
            request=4,
            conversation=Conversation(messages=tuple(messages)),
            chat="bench",
            cache=self.cache_settings,
            **more,
        )
        prepared = self.engine.prepare(command, CancelFlag())
        assert prepared.tokens == self.clock.fed
        return prepared

    def _open(self) -> None:
        """Load, then put a clock around everything that is told apart."""
        clock = self.clock
        timed = attending(lambda kernel: clock.timed("attention", kernel))
        self._patches.enter_context(mock.patch(KERNELS, timed))
        command = LoadModel(request=5, settings=self.settings)
        self.engine.load(command, CancelFlag(), lambda event: None)
        loaded = self.loaded
        for owner, name, wrapped in (
            (loaded.cache, "restore", clock.timed("restore", loaded.cache.restore)),
            (loaded.cache, "keep", clock.timed("keep", loaded.cache.keep)),
            (loaded.text, "render", clock.timed("render", loaded.text.render)),
            (loaded.model, "forward", self._counted(loaded.model.forward)),
            (loaded.model, "logits", self._captured(loaded.model.logits)),
        ):
            self._patches.enter_context(mock.patch.object(owner, name, wrapped))

    def _counted(self, forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def run(embeddings: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            if self.clock.logits is None:
                self.clock.fed += len(embeddings)
            return forward(embeddings, *args, **kwargs)

        return run

    def _captured(self, logits: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def run(hidden: Tensor) -> Tensor:
            made = logits(hidden)
            if self.clock.logits is None:
                self.clock.logits = made[0].clone()
            return made

        return run
