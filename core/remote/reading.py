"""Reads a streamed reply: from events to text, reasoning and numbers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from core.api.chat import AssistantMessage, ReplyIds
from core.api.errors import (
    RemoteAnswerError,
    RemoteModelError,
    RemoteRefusedError,
    RemoteStalledError,
    WaymarkError,
)
from core.api.events import Finished, FinishReason, Generated, Prefilling
from core.api.json_text import parse_json
from core.api.limits import LONGEST_REPLY_BYTES
from core.api.stats import RemoteReport, RequestStats
from core.remote.body import MOST_IDS, read_ids, tokenizer_of
from core.remote.connection import host_of, quoted, said_by
from core.remote.messages import Reply

_VERSION = re.compile(r"(:latest|-\d{4}(-?\d\d-?\d\d)?)$")
# Blanks before the reply that are held back, as `<think>` may follow.
_MOST_HELD = 1_024
# A count beyond it is no count.
_MOST_TOKENS = 2**40


class ReplyReader:
    """Call `finished` at the end, or when stopped."""

    def __init__(self, reply: Reply, clock: Callable[[], float] = time.monotonic) -> None:
        self._reply, self._clock = reply, clock
        self._request = reply.generate.request
        self._began, self._first, self._last = clock(), 0.0, 0.0
        self._thought = _ThoughtSplitter()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._size = self._pieces = self._done = 0
        self._ids: list[int] = []
        # False if a part came without ids.
        self._has_ids = True
        self._usage: dict[str, int] = {}
        self._speed: float | None = None
        self._reason: FinishReason | None = None
        # Nothing that follows matters.
        self.ended = False
        # The server's error, or the reason why its answer can't be used.
        self.fault: WaymarkError | None = None

    @property
    def begun(self) -> bool:
        return self._pieces > 0 or bool(self._ids)

    @property
    def complete(self) -> bool:
        """True if only numbers may follow."""
        return self.ended or self._reason is not None

    def waiting(self) -> Prefilling:
        return Prefilling(request=self._request, done=0, stats=self._stats())

    def take(self, events: list[str]) -> list[Prefilling | Generated]:
        """Progress and new text, up to the first `fault`."""
        return self._take(self._chunks(events))

    def take_whole(self, body: object) -> list[Prefilling | Generated]:
        self.ended = True
        chunk = body if isinstance(body, dict) else {}
        said = self._take((chunk,))
        if self.fault is None and not isinstance(chunk.get("choices"), list):
            self.fault = RemoteAnswerError(f"It isn't a reply{said_by(body, self._reply.key)}.")
        return said

    def _chunks(self, events: list[str]) -> Iterator[Mapping[str, Any]]:
        for event in events:
            if event.strip() == "[DONE]":
                self.ended = True
                return
            yield _object(event)

    def _take(self, chunks: Iterable[Mapping[str, Any]]) -> list[Prefilling | Generated]:
        answer, reasoning, ids = list[str](), list[str](), list[int]()
        progress: Prefilling | None = None
        try:
            for chunk in chunks:
                self._check(chunk)
                progress = self._progress(chunk) or progress
                self._count(chunk)
                for text, thought, new in self._deltas(chunk):
                    answer.append(text)
                    reasoning.append(thought)
                    ids += new
        except WaymarkError as error:
            self.fault = error
        said = self._said("".join(answer), "".join(reasoning), ids)
        return [each for each in (progress, said) if each is not None]

    def rest(self) -> Generated | None:
        """Text that was held back as a possible reasoning tag."""
        text, thought = self._thought.rest()
        return self._said(text, thought, [])

    def finished(self, stopped: bool = False) -> Finished:
        """Raises RemoteStalledError if the answer broke off."""
        if not self.complete and not stopped:
            raise RemoteStalledError("The connection ended in the middle of the reply.")
        reason = self._reason or "stop"
        ids = None
        # The last one ended the turn, unless the reply was cut off.
        sampled = self._ids[:-1] if self._reason == "stop" else self._ids
        if sampled and self._has_ids:
            ids = ReplyIds.pack(sampled, tokenizer_of(self._reply), starts_in_reasoning=False)
        message = AssistantMessage(
            text="".join(self._text), reasoning="".join(self._reasoning), ids=ids
        )
        return Finished(
            request=self._request,
            reason="cancelled" if stopped else reason,
            reply=message,
            reply_ids=(),
            stats=self._stats(),
        )

    def _check(self, chunk: Mapping[str, Any]) -> None:
        if chunk.get("error"):
            raise RemoteRefusedError(
                f"The server ended the reply{said_by(dict(chunk), self._reply.key)}."
            )
        name = chunk.get("model")
        if isinstance(name, str) and name and not _same_model(name, self._reply.model):
            other = quoted(name, self._reply.key)[:100]
            raise RemoteModelError(
                f"It answers with {other}, and this chat asked {self._reply.model}. "
                "Choose the model again."
            )

    def _progress(self, chunk: Mapping[str, Any]) -> Prefilling | None:
        """llama.cpp tells how much of a prompt is read."""
        found = chunk.get("prompt_progress")
        if not isinstance(found, dict) or self.begun:
            return None
        total, cached = _number(found.get("total")), _number(found.get("cache"))
        if total is None:
            return None
        self._usage |= {"prompt_tokens": total}
        if cached is not None:
            self._usage["cached"] = min(cached, total)
        done = min(total, _number(found.get("processed")) or 0)
        # Steps of a part of the whole: a server may report each token.
        if done <= self._done + total // 500:
            return None
        self._done = done
        return Prefilling(request=self._request, done=done, stats=self._stats())

    def _count(self, chunk: Mapping[str, Any]) -> None:
        usage, timings = chunk.get("usage"), chunk.get("timings")
        if isinstance(usage, dict):
            details = usage.get("prompt_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else None
            for name, value in (
                ("prompt_tokens", usage.get("prompt_tokens")),
                ("completion_tokens", usage.get("completion_tokens")),
                ("cached", cached),
            ):
                if (number := _number(value)) is not None:
                    self._usage[name] = number
        if isinstance(timings, dict):
            if (cached := _number(timings.get("cache_n"))) is not None:
                self._usage["cached"] = cached
            speed = timings.get("predicted_per_second")
            if isinstance(speed, float | int) and 0 < speed < 1e9:
                self._speed = float(speed)

    def _deltas(self, chunk: Mapping[str, Any]) -> Iterator[tuple[str, str, list[int]]]:
        choices = chunk.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, dict):
            return
        delta = first.get("delta") or first.get("message")
        if isinstance(first.get("text"), str):
            # An answer to a prompt of ids.
            delta = {"content": first["text"]}
        if isinstance(delta, dict):
            # vLLM and Ollama say "reasoning", the others "reasoning_content".
            thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
            content = _text(delta.get("content"))
            answer, spelled = self._thought.take(content)
            ids = read_ids(first.get("token_ids"))
            self._has_ids = self._has_ids and (ids is not None or not (content or thought))
            yield answer, thought + spelled, ids or []
        reason = first.get("finish_reason")
        if reason in ("abort", "error"):
            raise RemoteStalledError("The server ended the reply before its end.")
        # The ids of a stop string are no part of the text.
        self._has_ids = self._has_ids and not isinstance(first.get("stop_reason"), str)
        if isinstance(reason, str):
            self._reason = _finish_reason(reason, self._reply.generate.sampling.max_tokens)

    def _said(self, answer: str, reasoning: str, ids: list[int]) -> Generated | None:
        self._ids += ids
        if len(self._ids) > MOST_IDS:
            self._ids, self._has_ids = [], False
        reasoning, answer = self._fitting(reasoning), self._fitting(answer)
        if not answer and not reasoning:
            return None
        now = self._clock()
        self._first, self._last = self._first or now, now
        self._pieces += 1
        self._text.append(answer)
        self._reasoning.append(reasoning)
        return Generated(
            request=self._request,
            answer=answer,
            reasoning=reasoning,
            ttft_s=self._first - self._began,
        )

    def _fitting(self, text: str) -> str:
        """Cut `text` at a reply's length limit, which ends the reply."""
        data, room = text.encode(errors="replace"), max(0, LONGEST_REPLY_BYTES - self._size)
        self._size += len(data)
        if len(data) <= room:
            return text
        self._reason, self.ended = "size", True
        return data[:room].decode(errors="ignore")

    def _stats(self) -> RequestStats:
        prompt, cached = self._usage.get("prompt_tokens"), self._usage.get("cached")
        written = self._usage.get("completion_tokens") or len(self._ids)
        reused = min(cached or 0, prompt or 0)
        took = self._last - self._first
        measured = (written - 1) / took if written > 1 and took > 0 else None
        return RequestStats(
            prompt_tokens=prompt or 0,
            reused_tokens=reused,
            evaluated_tokens=(prompt or 0) - reused,
            reply_tokens=written,
            ttft_s=self._first - self._began if self._first else None,
            decode_tokens_per_s=self._speed or measured,
            remote=RemoteReport(
                host=host_of(self._reply.server.address),
                prompt=prompt is not None,
                cached=prompt is not None and cached is not None,
            ),
        )


class _ThoughtSplitter:
    """Takes a leading `<think>…</think>` out of the answer, for servers that don't parse
    reasoning."""

    OPEN, CLOSE = "<think>", "</think>"

    def __init__(self) -> None:
        self._state = "start"
        self._held = ""

    def take(self, text: str) -> tuple[str, str]:
        self._held += text
        thought = ""
        if self._state == "start":
            begun = self._held.lstrip()
            if begun.startswith(self.OPEN):
                self._state, self._held = "thought", begun.removeprefix(self.OPEN).lstrip("\n")
            elif self.OPEN.startswith(begun) and len(self._held) < _MOST_HELD:
                return "", ""
            else:
                self._state = "answer"
        if self._state == "thought":
            thought, closed, rest = self._held.partition(self.CLOSE)
            if not closed:
                held = _held_back(thought, self.CLOSE)
                self._held = thought[len(thought) - held :]
                return "", thought[: len(thought) - held]
            self._state, self._held, thought = "after", rest, thought.rstrip("\n")
        if self._state == "after":
            self._held = self._held.lstrip("\n")
            self._state = "answer" if self._held else "after"
        answer, self._held = self._held, ""
        return answer, thought

    def rest(self) -> tuple[str, str]:
        held, self._held = self._held, ""
        return ("", held) if self._state == "thought" else (held, "")


def _held_back(text: str, mark: str) -> int:
    """The longest end of `text` with which `mark` begins."""
    lengths = range(min(len(text), len(mark) - 1), 0, -1)
    return next((each for each in lengths if mark.startswith(text[-each:])), 0)


def _object(event: str) -> dict[str, Any]:
    try:
        chunk = parse_json(event)
    except ValueError as error:
        raise RemoteAnswerError("A part of the answer is not valid JSON.") from error
    if not isinstance(chunk, dict):
        raise RemoteAnswerError("A part of the answer is not an object.")
    return chunk


def _same_model(answered: str, asked: str) -> bool:
    """True if names differ only by a folder, an ending, or one's date."""
    first, second = _base(answered), _base(asked)
    return first == second or _VERSION.sub("", first) == second or first == _VERSION.sub("", second)


def _base(name: str) -> str:
    return name.lower().replace("\\", "/").rpartition("/")[2].removesuffix(".gguf")


def _finish_reason(reason: str, max_tokens: int | None) -> FinishReason:
    if reason == "length":
        return "length" if max_tokens else "context"
    return "stop"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST_TOKENS else None
