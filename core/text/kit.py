"""A loaded model's chat template, rendered by the helper, its frame around pictures, and its
tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from core.api.chat import AssistantMessage, ReplyIds
from core.api.errors import TemplateError, TemplateTimeoutError, TemplateTooLargeError
from core.api.params import Thinking
from core.helper import MAX_OUTPUT_CHARACTERS, TEXT_ERRORS
from core.helper.process import Helper, HelperFailedError
from core.model_files import JsonObject
from core.text.added_tokens import AddedToken, AddedTokens
from core.text.channels import CHANNEL, MESSAGE, Channels
from core.text.files import TextFiles
from core.text.masking import Marks
from core.text.reply_parts import (
    SampledReply,
    ThinkingTokens,
    split_messages,
    split_reply,
    stored_ids,
)
from core.text.reply_reader import ReplyReader
from core.text.template_messages import TemplateMessage
from core.text.token_text import TokenText
from core.text.tokenizer import Tokenizer

# A tokenizer of 27 MB with 262,144 tokens, as the largest published are, is built within 0.7 GiB.
TEXT_MEMORY_BYTES = 3 * 2**30
TIME_LIMIT_S = 2.0

# Ids that transformers assumes where config.json leaves them out: begin, placeholder and end,
_GEMMA3_IDS = {"boi_token_index": 255_999, "image_token_index": 262_144, "eoi_token_index": 256_000}
_GEMMA4_IDS = {"boi_token_id": 255_999, "image_token_id": 258_880, "eoi_token_id": 258_882}
_GEMMA_IDS = {"gemma3": _GEMMA3_IDS, "gemma4": _GEMMA4_IDS, "gemma4_unified": _GEMMA4_IDS}
# and of LFM2-VL. Its tokens around pictures, and Nemotron Omni's, are known by their spellings.
_AROUND = {
    "lfm2_vl": (396, "<|image_start|>", "<|image_end|>"),
    "nemotron_h_omni": (None, "<img>", "</img>"),
}
_NUMBER = "{number}"


class ChatTemplate:
    def __init__(
        self,
        source: str,
        special_tokens: Mapping[str, str],
        helper: Helper,
        frame: PictureFrame | None = None,
    ) -> None:
        self.source = source
        self._special_tokens = dict(special_tokens)
        self._helper, self.frame = helper, frame
        self._compiled_in = -1
        self._compile()

    def render(
        self,
        messages: list[TemplateMessage],
        thinking: Thinking,
        created: float,
        tools: list[Any] | None = None,
    ) -> str:
        """`created` is in seconds, UTC. Raises TemplateError."""
        variables: dict[str, Any] = {
            **self._special_tokens,
            "messages": messages,
            "tools": tools,
            "documents": None,
            "add_generation_prompt": True,
        }
        if thinking is not None:
            variables["enable_thinking"] = thinking is not False
            if not isinstance(thinking, bool):
                variables["reasoning_effort"] = thinking
            elif not thinking and CHANNEL in self.source:
                # As little as gpt-oss can, which always thinks.
                variables["reasoning_effort"] = "low"
        if self._helper.pid != self._compiled_in:
            self._compile()
        rendered = self._ask("template.render", {"variables": variables, "created": created})
        return rendered if self.frame is None else self.frame.around_pictures(rendered)

    def _compile(self) -> None:
        self._ask("template.compile", {}, self.source.encode("utf-8", TEXT_ERRORS))
        self._compiled_in = self._helper.pid or -1

    def _ask(self, task: str, fields: dict[str, Any], source: bytes = b"") -> str:
        try:
            _, text = self._helper.ask(task, fields, source, seconds=TIME_LIMIT_S)
        except HelperFailedError as failure:
            raise _as_error(failure.reason) from None
        return text.decode("utf-8", TEXT_ERRORS)


def _as_error(reason: str) -> TemplateError:
    if reason == "time":
        return TemplateTimeoutError(
            f"The template was still running after {TIME_LIMIT_S:.0f} seconds, so it was stopped."
        )
    if reason == "memory":
        return TemplateTooLargeError("The template used too much memory, so it was stopped.")
    words = {
        "raised": "The template stopped with an unknown error.",
        "started": "The process for templates could not be started.",
        "ended": "The template crashed its process.",
    }
    return TemplateError(words[reason])


@dataclass(frozen=True, slots=True)
class PictureFrame:
    """`begin` is the text that a template writes for a picture, `whole` its replacement.

    Gemma 3's begins an image, the others' is the placeholder alone. _NUMBER is the picture's number
    in the prompt.
    """

    begin: str
    whole: str

    @classmethod
    def find(cls, config: JsonObject, added: AddedTokens) -> PictureFrame | None:
        family = config.get("model_type")
        if family in _AROUND:
            return cls._between(*_AROUND[family], config, added)
        if family in ("minicpmv4_6", "minicpmv4_7"):
            found = _token(config.get("image_token_id"), added)
            begin = found.spelling if found is not None else ""
            return cls(begin, f"<image_id>{_NUMBER}</image_id>{begin}") if begin else None
        ids = _GEMMA_IDS.get(str(family), {})
        tokens = [_token(config.get(name, usual), added) for name, usual in ids.items()]
        spelled = [token.spelling for token in tokens if token is not None]
        if not ids or len(spelled) < len(ids):
            return None
        whole = "".join(spelled)
        return cls(spelled[0], f"\n\n{whole}\n\n") if family == "gemma3" else cls(spelled[1], whole)

    @classmethod
    def _between(
        cls, usual: int | None, begin: str, end: str, config: JsonObject, added: AddedTokens
    ) -> PictureFrame | None:
        named = config.get("image_token_id", config.get("image_token_index", usual))
        placeholder = _token(named, added)
        if placeholder is None or None in (added.id_of(begin), added.id_of(end)):
            return None
        return cls(placeholder.spelling, f"{begin}{placeholder.spelling}{end}")

    def around_pictures(self, rendered: str) -> str:
        """Raises TemplateTooLargeError."""
        if len(rendered) + rendered.count(self.begin) * len(self.whole) > 2 * MAX_OUTPUT_CHARACTERS:
            raise TemplateTooLargeError("The template shows more pictures than fit into a prompt.")
        first, *others = rendered.split(self.begin)
        framed = (
            self.whole.replace(_NUMBER, str(number)) + text for number, text in enumerate(others)
        )
        return "".join((first, *framed))


def _token(token_id: object, added: AddedTokens) -> AddedToken | None:
    return added.by_id.get(token_id) if isinstance(token_id, int) else None


@dataclass(frozen=True)
class TextKit:
    template: ChatTemplate
    added: AddedTokens
    tokenizer: Tokenizer
    tokens: TokenText
    thinking: ThinkingTokens
    channels: Channels | None
    image_token_id: int | None
    fingerprint: str
    vocab_size: int

    @cached_property
    def marks(self) -> Marks:
        """Two characters that the template itself can't write."""
        return self.marks_absent_from(())

    def marks_absent_from(self, texts: Iterable[str]) -> Marks:
        return Marks.absent_from((self.template.source, *self.added.by_spelling, *texts))

    def header_of(self, channel: str) -> list[int]:
        return self.tokenizer.encode_published(f"{CHANNEL}{channel}{MESSAGE}")

    def sampled(self, message: AssistantMessage) -> SampledReply | None:
        ids = stored_ids(message, self.fingerprint, self.vocab_size)
        if ids is None or message.ids is None:
            return None
        if self.channels is not None:
            reply = split_messages(ids, self.channels, self.tokens.text)
        else:
            starts = message.ids.starts_in_reasoning
            reply = split_reply(ids, starts, self.thinking, self.tokens.is_space)
        return replace(reply, pauses=message.ids.pauses)


def build_kit(files: TextFiles, helper: Helper) -> TextKit:
    tokenizer = Tokenizer(files.read_tokenizer, helper)
    added = tokenizer.added
    image_token = files.image_token
    image_id = added.id_of(image_token) if isinstance(image_token, str) else image_token
    named = {} if image_id is None else {"image_token_id": image_id}
    frame = PictureFrame.find({**files.config, **named}, added)
    return TextKit(
        template=ChatTemplate(files.template, files.special_tokens, helper, frame),
        added=added,
        tokenizer=tokenizer,
        tokens=TokenText(tokenizer),
        thinking=ThinkingTokens.find(added, tokenizer.ids),
        channels=Channels.find(added, files.template),
        image_token_id=image_id,
        fingerprint=files.fingerprint,
        vocab_size=files.vocab_size or tokenizer.vocab_size,
    )


def edited_ids(kit: TextKit, reply: AssistantMessage, text: str) -> ReplyIds | None:
    """The ids of `reply` with `text` as its answer; None if its own can't be used.

    They are the sampled ones up to the first difference, a pause, and those of the rest of the
    text: later edits reuse what was prefilled before it.
    """
    sampled = stored_ids(reply, kit.fingerprint, kit.vocab_size)
    if sampled is None or reply.ids is None or reply.calls:
        return None
    starts = reply.ids.starts_in_reasoning
    kept, length = _common(_reader(kit, starts), sampled, text)
    rest = kit.tokenizer.encode_uncached(text[length:], at_start=False).ids if text[length:] else ()
    ids = [*sampled[:kept], *rest]
    if not ids or _texts(_reader(kit, starts), ids) != (text, reply.reasoning):
        return None
    before = tuple(pause for pause in reply.ids.pauses if pause < kept)
    pauses = (*before, kept) if kept else before
    return ReplyIds.pack(ids, reply.ids.tokenizer, starts, pauses)


def _reader(kit: TextKit, starts_in_reasoning: bool) -> ReplyReader:
    return ReplyReader(
        kit.tokens, kit.thinking, frozenset(), (), starts_in_reasoning, channels=kit.channels
    )


def _common(reader: ReplyReader, ids: Sequence[int], text: str) -> tuple[int, int]:
    kept = length = shown = 0
    for count, token_id in enumerate(ids, 1):
        answer = reader.push(token_id).answer
        if not text.startswith(answer, shown):
            break
        shown += len(answer)
        in_word = text[shown - 1 : shown].isalnum() and text[shown : shown + 1].isalnum()
        if not reader.in_thought and not reader.holds_back and not in_word:
            kept, length = count, shown
    return kept, length


def _texts(reader: ReplyReader, ids: Sequence[int]) -> tuple[str, str]:
    for token_id in ids:
        reader.push(token_id)
    reader.close()
    return reader.answer, reader.reasoning
