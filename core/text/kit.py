"""The parts of a loaded model that concern text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from core.api.chat import AssistantMessage
from core.helper.process import Helper
from core.text.added_tokens import AddedTokens
from core.text.files import TextFiles
from core.text.masking import Marks, TemplateMessage
from core.text.reply_parts import SampledReply, ThinkingTokens, split_reply, stored_ids
from core.text.template import ChatTemplate, PictureFrame
from core.text.token_text import TokenText
from core.text.tokenizer import Tokenizer

# A tokenizer of 27 MB with 262,144 tokens, as the largest published are, is built within 0.7 GiB.
TEXT_MEMORY_BYTES = 3 * 2**30


@dataclass(frozen=True)
class TextKit:
    template: ChatTemplate
    added: AddedTokens
    tokenizer: Tokenizer
    tokens: TokenText
    thinking: ThinkingTokens
    image_token_id: int | None
    frame: PictureFrame | None
    fingerprint: str
    vocab_size: int

    def render(self, messages: list[TemplateMessage], thinking: bool | None, created: float) -> str:
        rendered = self.template.render(messages, thinking, created)
        return self.frame.around_pictures(rendered) if self.frame is not None else rendered

    @cached_property
    def marks(self) -> Marks:
        """Marks for this template: two characters that it can't write by itself."""
        return Marks.absent_from((self.template.source, *self.added.by_spelling))

    def sampled(self, message: AssistantMessage) -> SampledReply | None:
        ids = stored_ids(message, self.fingerprint, self.vocab_size)
        if ids is None or message.ids is None:
            return None
        starts = message.ids.starts_in_reasoning
        reply = split_reply(ids, starts, self.thinking, self.tokens.is_space)
        return replace(reply, pauses=message.ids.pauses)


def build_kit(files: TextFiles, helper: Helper) -> TextKit:
    template = ChatTemplate(files.template, files.special_tokens, helper)
    tokenizer = Tokenizer(files.read_tokenizer, helper)
    added = tokenizer.added
    image_token = files.image_token
    image_id = added.id_of(image_token) if isinstance(image_token, str) else image_token
    return TextKit(
        template=template,
        added=added,
        tokenizer=tokenizer,
        tokens=TokenText(tokenizer),
        thinking=ThinkingTokens.find(added),
        image_token_id=image_id,
        frame=PictureFrame.find(files.config, added),
        fingerprint=files.fingerprint,
        vocab_size=files.vocab_size or tokenizer.vocab_size,
    )
