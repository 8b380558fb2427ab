"""Short ways to write conversations in tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from tokenizers import Tokenizer

from core.api.chat import (
    AssistantMessage,
    ContentPart,
    Conversation,
    ImagePart,
    Message,
    ReplyIds,
    SystemMessage,
    TextPart,
    UserMessage,
)
from core.api.prompt import Image, TextRun
from core.text.chat_text import ChatText, RenderedPrompt
from core.text.template_messages import num_images

TextOf = Callable[[str], ChatText]

GRID = 64
PICTURE = ImagePart(digest="a" * 64, path="nowhere.png")
IMAGE = Image(key=b"picture".ljust(32, b"-"), rows=2, columns=3, num_positions=3)


def looped(body: str) -> str:
    """A template that writes each message with `body` as its content."""
    return (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}" + body + "<|im_end|>\n"
        "{% endfor %}{{ '<|im_start|>assistant\n' }}"
    )


# A template whose replies can't be spliced.
REPEATS_TEXT = looped("{{ m.content + m.content }}")


def chat(*messages: Message | str, created: float = 0.0) -> Conversation:
    listed = tuple(user(item) if isinstance(item, str) else item for item in messages)
    return Conversation(messages=listed, created=created)


def user(*parts: ContentPart | str) -> UserMessage:
    content = (TextPart(text=part) if isinstance(part, str) else part for part in parts)
    return UserMessage(content=tuple(content))


def system(text: str) -> SystemMessage:
    return SystemMessage(text=text)


def sampled(
    text: ChatText, ids: Iterable[int], in_thought: bool = False, answer: str = ""
) -> AssistantMessage:
    packed = ReplyIds.pack(ids, text.tokenizer_fingerprint, in_thought)
    return AssistantMessage(text=answer, ids=packed)


def plain_ids(text: ChatText, words: str) -> list[int]:
    return text._kit.tokenizer.ids(words)


def added_id(text: ChatText, spelling: str) -> int:
    found = text._kit.added.id_of(spelling)
    assert found is not None
    return found


def spelled(text: ChatText, parts: str) -> list[int]:
    """Ids of parts between `|`, in which the thinking tokens are spelled alone."""
    ids = (
        [added_id(text, part)] if part in ("<think>", "</think>") else plain_ids(text, part)
        for part in parts.split("|")
    )
    return [token_id for part in ids for token_id in part]


def render(
    text: ChatText, conversation: Conversation, thinking: bool | None = None
) -> RenderedPrompt:
    return text.render(
        conversation, [IMAGE] * sum(map(num_images, conversation.messages)), thinking, GRID
    )


def ids(rendered: RenderedPrompt, image_token_id: int = -1) -> list[int]:
    """All ids, `image_token_id` for each token of a picture."""
    return rendered.prompt.ids(image_token_id)


def text_ids(rendered: RenderedPrompt) -> list[int]:
    runs = (segment for segment in rendered.prompt.segments if isinstance(segment, TextRun))
    return [token_id for run in runs for token_id in run.ids]


_BUILT: dict[str, Tokenizer] = {}


def library_tokenizer(text: ChatText) -> Tokenizer:
    if text.tokenizer_fingerprint not in _BUILT:
        description = json.loads(text._kit.tokenizer._read())
        off: dict[str, None] = {"truncation": None, "padding": None, "post_processor": None}
        built = Tokenizer.from_str(json.dumps({**description, **off}))
        _BUILT[text.tokenizer_fingerprint] = built
    return _BUILT[text.tokenizer_fingerprint]


def words(text: ChatText, token_ids: list[int]) -> str:
    """Ids as readable text, control tokens included; -1 (a picture's token) reads as `#`."""
    tokenizer = library_tokenizer(text)
    shown = ""
    run: list[int] = []
    for token_id in [*token_ids, -1]:
        if token_id >= 0:
            run.append(token_id)
            continue
        shown += tokenizer.decode(run, skip_special_tokens=False) + "#"
        run = []
    return shown[:-1]
