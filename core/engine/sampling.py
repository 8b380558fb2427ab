"""The next token of a reply: masked by its format, then sampled from a row of logits. A grammar
follows sampled tokens only, so drafts need no rollback. Settings have the order and meaning of
transformers' logits processors; randomness is a pure function of (seed, token index)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from core.api.errors import InternalError, ReplyFormatError
from core.api.params import SamplingParams, Thinking
from core.api.reply_format import ReplyFormat
from core.formats.check import refusal
from core.formats.grammar import grammar, message_grammar
from core.helper.grammars import REFUSED, matcher
from core.text.chat_text import ChatText, RenderedPrompt


class Constraint:
    """A thought is free, but can't end the reply."""

    def __init__(
        self, form: ReplyFormat | None, text: ChatText, rendered: RenderedPrompt, thinking: Thinking
    ) -> None:
        """Raises ReplyFormatError if the format can't be used or a begun reply doesn't match."""
        self._on = form is not None
        if form is None:
            return
        reason = refusal(form)
        if reason:
            raise ReplyFormatError(reason)
        tokens, known = text.thinking, text.thinking.known
        thinks = known and thinking is not False and not rendered.closes_reasoning
        self._open = tokens.open if thinks else None
        self._close = tokens.close
        self._in_thought = rendered.opens_reasoning and known
        self._at_start = not self._in_thought
        self._stop_ids = text.stop_ids
        # In messages thoughts are part of the grammar.
        self._in_messages, self._thinks = text.in_messages, thinking is not False
        self._form, self._spelling = form, text.spelling
        self._control = {spelling: each for each, spelling in text.call_marks.items()}
        self._begin()
        for token_id in rendered.begun:
            self.accept(token_id)

    def limit(self, logits: Tensor) -> Tensor:
        """`logits` [vocab] with -inf for tokens not allowed. Raises ReplyFormatError."""
        if not self._on:
            return logits
        forbidden = self._forbidden(len(logits)).to(logits.device)
        return logits.masked_fill(forbidden, -math.inf)

    def accept(self, token_id: int) -> None:
        if not self._on or token_id in self._stop_ids:
            return
        if self._in_thought:
            self._in_thought = token_id != self._close
        elif self._at_start and token_id == self._open:
            self._in_thought, self._at_start = True, False
            self._begin()
        else:
            self._at_start = False
            self._grammar.consume_token(token_id)
            self._check()

    def forced(self) -> list[int]:
        """Ids that must come next; often none."""
        if not self._on or self._in_thought or self._at_start or self._grammar.is_stopped():
            return []
        return self._grammar.compute_ff_tokens()

    def fitting(self, draft: Sequence[int]) -> list[int]:
        free = self._num_free(draft)
        if free == len(draft):
            return list(draft)
        fits = self._grammar.validate_tokens(list(draft[free:]))
        return list(draft[: free + fits])

    def _begin(self) -> None:
        if self._in_messages:
            found = message_grammar(self._form, self._thinks)
        else:
            found = grammar(self._form, self._in_thought, self._control)
        self._grammar = matcher(self._spelling, found)
        self._check()

    def _num_free(self, draft: Sequence[int]) -> int:
        if not self._on:
            return len(draft)
        if not self._in_thought:
            return 0
        return next((1 + at for at, each in enumerate(draft) if each == self._close), len(draft))

    def _forbidden(self, vocab_size: int) -> Tensor:
        if self._in_thought:
            forbidden = np.zeros(vocab_size, np.uint8)
            forbidden[[each for each in self._stop_ids if each < vocab_size]] = 1
            return torch.from_numpy(forbidden).view(torch.bool)
        allowed = np.frombuffer(self._grammar.compute_bitmask(), np.uint8)
        self._check()
        forbidden = np.unpackbits(~allowed, bitorder="little")[:vocab_size]
        if self._at_start and self._open is not None:
            forbidden[self._open] = 0
        if forbidden.all():
            raise ReplyFormatError("No token of this model continues the reply in this format.")
        # A model may have rows without a token.
        forbidden = np.pad(forbidden, (0, vocab_size - len(forbidden)), constant_values=1)
        return torch.from_numpy(forbidden).view(torch.bool)

    def _check(self) -> None:
        if not self._grammar.is_error():
            return
        why = self._grammar.get_error()
        if REFUSED in why:
            raise ReplyFormatError("The reply to continue is not in this format.")
        raise ReplyFormatError("The format has become too complex to go on.")


# Values of settings that neither the user nor the model sets: no change to the logits.
NEUTRAL = SamplingParams(
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    min_p=0.0,
    repetition_penalty=1.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
)


def resolve(request: SamplingParams, defaults: SamplingParams) -> SamplingParams:
    """Only seed and max_tokens may stay None."""
    merged = NEUTRAL.model_dump()
    for params in (defaults, request):
        given = params.model_dump(exclude_none=True)
        if not params.stop:
            given.pop("stop")
        merged.update(given)
    return SamplingParams(**merged)


class Sampler:
    """`prompt_ids` has no image placeholders."""

    def __init__(
        self, sampling: SamplingParams, prompt_ids: Sequence[int], vocab_size: int, seed: int
    ) -> None:
        self._sampling = resolve(sampling, NEUTRAL)
        self._seed = seed
        self._seen = torch.zeros(vocab_size, dtype=torch.bool)
        self._counts = torch.zeros(vocab_size, dtype=torch.float32)
        known = [token_id for token_id in prompt_ids if 0 <= token_id < vocab_size]
        self._seen[torch.tensor(known, dtype=torch.long)] = True

    def accept(self, token_id: int) -> None:
        self._seen[token_id] = True
        self._counts[token_id] += 1

    def sample(self, logits: Tensor, token_index: int) -> int:
        """Leaves `logits` [vocab] unchanged. Raises InternalError for NaN or infinity."""
        sampling = self._sampling
        scores = logits.detach().to("cpu", torch.float32)[: len(self._seen)]
        scores = penalise_repetition(scores, self._seen, sampling.repetition_penalty or 1.0)
        scores = penalise_counts(
            scores,
            self._counts,
            sampling.presence_penalty or 0.0,
            sampling.frequency_penalty or 0.0,
        )
        # NaN and +inf show in the maximum; a row of -inf leaves nothing to sample.
        if not math.isfinite(float(scores.max())):
            raise InternalError(
                "The model computed something that is not a number. Its weights may be damaged, "
                "or the precision may be too low for them."
            )
        if not sampling.temperature:
            return int(scores.argmax())
        warm, scores = scores, scores / sampling.temperature
        if not math.isfinite(float(scores.max())):
            return int(warm.argmax())  # too cold for float32
        token_ids = torch.arange(len(scores))
        if sampling.top_k:
            token_ids, scores = _kept(token_ids, keep_top_k(scores, sampling.top_k))
        if sampling.top_p is not None and sampling.top_p < 1:
            token_ids, scores = _kept(token_ids, keep_top_p(scores, sampling.top_p))
        if sampling.min_p:
            token_ids, scores = _kept(token_ids, keep_min_p(scores, sampling.min_p))
        return int(token_ids[_at(scores, uniform(self._seed, token_index))])


# A probability of 0, which JSON has no logarithm of.
_LEAST_LOGPROB = -9999.0


def log_probabilities(
    logits: Tensor, token_id: int, num_top: int
) -> tuple[float, list[tuple[int, float]]]:
    """Natural log-softmax of `logits` [vocab] at one id and at the `num_top` likeliest."""
    found = logits.detach().to("cpu", torch.float32).log_softmax(-1, dtype=torch.float64)
    found = found.nan_to_num(nan=_LEAST_LOGPROB, neginf=_LEAST_LOGPROB)
    top = found.topk(min(num_top, len(found)))
    return float(found[token_id]), list(zip(top.indices.tolist(), top.values.tolist(), strict=True))


def penalise_repetition(scores: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """See Keskar et al. 2019, CTRL, section 4.1."""
    if penalty == 1:
        return scores
    penalised = torch.where(scores < 0, scores * penalty, scores / penalty)
    return torch.where(seen, penalised, scores)


def penalise_counts(scores: Tensor, counts: Tensor, presence: float, frequency: float) -> Tensor:
    if presence == 0 and frequency == 0:
        return scores
    return scores - (counts > 0) * presence - counts * frequency


def keep_top_k(scores: Tensor, top_k: int) -> Tensor:
    """-inf for all but the `top_k` best; ties with the last one stay."""
    threshold = scores.topk(min(top_k, len(scores))).values[-1]
    return _only(scores, (scores >= threshold).nonzero().flatten())


def keep_top_p(scores: Tensor, top_p: float) -> Tensor:
    """-inf for all but the likeliest tokens that together reach `top_p`, at least one. Tokens below
    an n-th of 1 - p can't make up 1 - p together and needn't be sorted."""
    probabilities = scores.softmax(-1)
    least = min((1 - top_p) / len(scores), float(probabilities.max()))
    candidates = (probabilities >= least).nonzero().flatten()
    _, order = scores[candidates].sort(stable=True)
    likely = probabilities[candidates[order]]
    below = (probabilities.sum() - likely.sum()).clamp(min=0)
    unlikely = likely.cumsum(-1) + below <= 1 - top_p
    unlikely[-1] = False
    return _only(scores, candidates[order[~unlikely]])


def keep_min_p(scores: Tensor, min_p: float) -> Tensor:
    probabilities = scores.softmax(-1)
    return scores.masked_fill(probabilities < min_p * probabilities.max(), -math.inf)


def uniform(seed: int, token_index: int) -> float:
    """In [0, 1), fixed by (seed, token index) on every computer."""
    message = seed.to_bytes(8, "little") + token_index.to_bytes(8, "little")
    digest = hashlib.blake2b(message, digest_size=8, person=b"waymark draw").digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def _only(scores: Tensor, places: Tensor) -> Tensor:
    kept = torch.full_like(scores, -math.inf)
    kept[places] = scores[places]
    return kept


def _kept(token_ids: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    possible = (scores > -math.inf).nonzero().flatten()
    return token_ids[possible], scores[possible]


def _at(scores: Tensor, point: float) -> int:
    """The token at `point` of the cumulated probabilities, in double precision."""
    cumulated = scores.double().softmax(-1).cumsum(-1)
    place = torch.searchsorted(cumulated, point * cumulated[-1], right=True)
    return min(int(place), len(scores) - 1)
