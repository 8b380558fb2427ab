"""The request that every protocol is translated into, and the events of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.api.chat import Conversation, ToolCall
from core.api.events import AnswerToken, FinishReason
from core.api.params import SamplingParams, Thinking
from core.api.reply_format import ReplyFormat
from core.api.stats import RequestStats
from core.server.requests.tools import NO_TOOLS, Tools

# The end of a name in Ollama's protocol.
LATEST = ":latest"
_MODELS_OWN = SamplingParams()


@dataclass(frozen=True, slots=True)
class Ask:
    """`conversation` holds no ids. `client` tells programs apart in the queue. `thinking` None
    leaves the choice to the template; `model` "" is any. `logprobs` is the number of alternatives
    to report for each token. The fields name the conversation and the format in errors."""

    conversation: Conversation
    client: str
    sampling: SamplingParams = _MODELS_OWN
    thinking: Thinking = None
    tools: Tools = NO_TOOLS
    format: ReplyFormat | None = None
    logprobs: int | None = None
    prompt_field: str = "messages"
    format_field: str = "response_format"
    model: str = ""


@dataclass(frozen=True, slots=True)
class Delta:
    """While the prompt is read there are only `stats`; the first say that the request was accepted.
    A `call` that isn't `whole` has the arguments so far."""

    answer: str = ""
    reasoning: str = ""
    call: ToolCall | None = None
    whole: bool = True
    stats: RequestStats | None = None
    logprobs: Sequence[AnswerToken] = ()

    @property
    def is_said(self) -> bool:
        """True if it is a part of the whole reply."""
        return self.whole and self.stats is None


@dataclass(frozen=True, slots=True)
class Ended:
    """`side`: it ran on a branch of its own and evicted nothing. `volatile` names lines of the
    system prompt that were left out or pinned; `stop` is the stop string that ended the reply;
    `logprobs` are the answer's tokens, None if not asked for."""

    reason: FinishReason
    stats: RequestStats
    side: bool
    calls: bool = False
    volatile: tuple[str, ...] = ()
    stop: str = ""
    logprobs: Sequence[AnswerToken] | None = None

    @property
    def complete(self) -> bool:
        return self.reason == "stop"

    def timings(self) -> dict[str, object]:
        """The engine's counters, under llama.cpp's names where these mean the same."""
        stats = self.stats
        tier = "memory" if stats.restored_from == "slab" else stats.restored_from
        return {
            "cache_n": stats.reused_tokens,
            "prompt_n": stats.evaluated_tokens,
            "prompt_ms": None if stats.prefill_s is None else round(stats.prefill_s * 1e3, 1),
            "predicted_n": stats.reply_tokens,
            "predicted_per_second": stats.decode_tokens_per_s,
            "first_token_ms": None if stats.ttft_s is None else round(stats.ttft_s * 1e3, 1),
            "restored_from": tier,
            "images_encoded": stats.images_encoded,
            "miss": None if stats.miss is None else stats.miss.model_dump(),
            "side": self.side,
            "volatile_lines": self.volatile,
        }
