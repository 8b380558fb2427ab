"""The interface of `core.text`: from a conversation to a prompt, from sampled ids to text."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from llguidance import LLTokenizer

from core.api.chat import (
    AssistantMessage,
    Conversation,
    Message,
    ReplyIds,
    SystemMessage,
    TextPart,
    UserMessage,
)
from core.api.errors import (
    BrokenTokenizerError,
    EmptyConversationError,
    InvalidRequestError,
    NoToolsError,
    NoVisionError,
    TemplateError,
)
from core.api.params import Thinking
from core.api.positions import TokenIndex
from core.api.prompt import CutKind, Image, Prompt, Segment, TextRun
from core.api.reply_format import RESULT_BEGIN, marks_of
from core.helper.process import Helper
from core.text.added_tokens import AddedToken
from core.text.assembly import assemble, message_places, pauses_of
from core.text.channels import ANSWER, THOUGHT
from core.text.files import TextFiles, read_text_files, sampling_defaults
from core.text.history import Piece, Traits, plain_pieces, spliced_pieces
from core.text.kit import TEXT_MEMORY_BYTES, TextKit, build_kit, edited_ids
from core.text.probing import call_ids, probe_traits, splicing_obstacle
from core.text.reply_parts import stored_ids
from core.text.reply_reader import ReplyReader
from core.text.template_messages import num_images, tool_texts
from core.text.token_text import grammar_tokens


@dataclass(frozen=True)
class RenderedPrompt:
    """`message_starts` is the first token of each message but the system's, template header
    included. The reply begins inside an open thought (`opens_reasoning`), or after a closed one
    (`closes_reasoning`). A continued reply has the ids `begun` and paused after `pauses` ids."""

    prompt: Prompt
    message_starts: tuple[TokenIndex, ...]
    opens_reasoning: bool
    begun: tuple[int, ...] = ()
    pauses: tuple[int, ...] = ()
    closes_reasoning: bool = False


class ChatText:
    """`end_of_turn_ids` close a message, `stop_ids` end a sampled reply. Unless `spliced`, replies
    must be tokenised again; `note` tells the user why."""

    def __init__(
        self,
        files: TextFiles,
        check: Callable[[], None] | None = None,
        helper: Helper | None = None,
    ) -> None:
        """Raises BrokenTokenizerError, BrokenConfigError, TemplateError. `helper` is its own by
        default."""
        helper = helper or self.new_helper()
        with helper.checking(check):
            self._kit = build_kit(files, helper)
            self._traits = probe_traits(self._kit)
            obstacle = splicing_obstacle(self._kit, self._traits)
        self.tokenizer_fingerprint = files.fingerprint
        self.vocab_size = self._kit.vocab_size
        self.image_token_id = self._kit.image_token_id
        self.has_thinking_switch = self._traits.has_thinking_switch
        self.thinking = self._kit.thinking
        self.in_messages = self._kit.channels is not None
        self.takes_images = self._traits.takes_images
        self.tools = self._traits.tools
        self.call_ids = call_ids(self._kit, self.tools)
        self.sampling_defaults = sampling_defaults(files.generation_config)
        self.end_of_turn_ids, self.stop_ids = _end_ids(files, self._kit, self._traits)
        self.spliced = not obstacle
        self.note = "" if self.spliced else _note(obstacle)

    @staticmethod
    def new_helper() -> Helper:
        """One for each model: its files can't reach another model's conversations."""
        return Helper(TEXT_MEMORY_BYTES)

    @classmethod
    def open(cls, folder: Path, check: Callable[[], None] | None = None) -> ChatText:
        return cls(read_text_files(folder), check)

    def token_id(self, spelling: str) -> int | None:
        """The id of an added token, or of one whose text this is."""
        found = self._kit.added.id_of(spelling)
        ids = self._kit.tokenizer.ids(spelling) if found is None else []
        return ids[0] if len(ids) == 1 else found

    def count(self, text: str) -> int:
        """Uncached; from any thread."""
        return len(self._kit.tokenizer.encode_uncached(text, at_start=False).ids) if text else 0

    def edited_ids(self, reply: AssistantMessage, text: str) -> ReplyIds | None:
        """Callable from any thread."""
        return edited_ids(self._kit, reply, text)

    def render(
        self, conversation: Conversation, images: Sequence[Image], thinking: Thinking, grid: int
    ) -> RenderedPrompt:
        """The prompt for the next reply, or for the rest of the one that ends the conversation.

        `images` are those of the conversation's ImageParts, in order. Raises WaymarkError.
        """
        if conversation.raw is not None:
            return self._raw(conversation.raw, grid)
        last = conversation.messages[-1] if conversation.messages else None
        if isinstance(last, AssistantMessage):
            return self._continued(conversation, last, images, thinking, grid)
        self._check(conversation, images)
        kept = self._in_prompt(conversation.messages)
        messages = tuple(conversation.messages[index] for index in kept)
        pieces = self._pieces(conversation.model_copy(update={"messages": messages}), thinking)
        places = message_places(pieces, messages, self.end_of_turn_ids)
        # A message that is left out has its place where the next one begins.
        starts = [places[bisect_left(kept, index)] for index in range(len(conversation.messages))]
        if isinstance(conversation.messages[0], SystemMessage):
            del starts[0]
        assembly, message_starts = assemble(pieces, starts, self._kit.tokenizer, images)
        segments, pauses = tuple(assembly.segments), frozenset(assembly.pauses)
        self._check_ids(segments)
        if not any(segment.num_tokens for segment in segments):
            raise TemplateError("The template writes nothing for this conversation.")
        prompt = Prompt(
            segments,
            self.end_of_turn_ids,
            grid,
            pauses,
            self.call_ids,
            frozenset(assembly.part_ends),
        )
        control, last_id = self.thinking, self._last_control(pieces)
        return RenderedPrompt(
            prompt,
            message_starts,
            opens_reasoning=control.known and last_id == control.open,
            closes_reasoning=control.known and last_id == control.close,
        )

    def _raw(self, text: str, grid: int) -> RenderedPrompt:
        segments = (TextRun(tuple(self._kit.tokenizer.encode_published(text, special=True))),)
        self._check_ids(segments)
        if not segments[0].num_tokens:
            raise EmptyConversationError("The prompt is empty.")
        prompt = Prompt(segments, self.end_of_turn_ids, grid, call_ids=self.call_ids)
        return RenderedPrompt(prompt, (), False)

    def _check_ids(self, segments: Sequence[Segment]) -> None:
        """Refuse ids without a row in the model's table: a GPU would be unusable afterwards."""
        if self._kit.tokenizer.table.num_ids <= self.vocab_size:
            return
        for segment in segments:
            if isinstance(segment, TextRun) and max(segment.ids, default=0) >= self.vocab_size:
                raise BrokenTokenizerError(
                    f"The tokenizer uses token {max(segment.ids)}, but the model has only "
                    f"{self.vocab_size:,} tokens."
                )

    def _in_prompt(self, messages: Sequence[Message]) -> list[int]:
        """Leave out replies without content, which would be copied, if the template allows it."""
        keeps_all = self._traits.style.joins_questions
        return [
            index
            for index, message in enumerate(messages)
            if keeps_all or not isinstance(message, AssistantMessage) or _has_content(message)
        ]

    @cached_property
    def spelling(self) -> LLTokenizer:
        return grammar_tokens(self._kit.tokens, self.stop_ids, self.vocab_size)

    def reply_reader(
        self,
        rendered: RenderedPrompt,
        stop: tuple[str, ...],
        keeps_blanks: bool = False,
        calls: bool = False,
    ) -> ReplyReader:
        """A stop string that spells an added token means that token. With `keeps_blanks` an answer
        includes the whitespace after a thought, with `calls` the marks around tool calls."""
        found = (self._kit.added.id_of(spelling) for spelling in stop)
        spelled = {token_id for token_id in found if token_id is not None}
        return ReplyReader(
            self._kit.tokens,
            self._kit.thinking,
            self.stop_ids | spelled,
            stop,
            rendered.opens_reasoning,
            rendered.begun,
            keeps_blanks,
            self.call_marks if calls else None,
            self._kit.channels,
        )

    @cached_property
    def call_marks(self) -> dict[int, str]:
        marks = marks_of(self.tools) if self.tools is not None else ()
        found = {self._kit.added.id_of(spelling): spelling for spelling in marks}
        return {token_id: spelling for token_id, spelling in found.items() if token_id is not None}

    def token_bytes(self, token_id: int) -> bytes:
        return self._kit.tokens.named(token_id)

    def forget(self) -> None:
        self._kit.tokenizer.forget()

    def _continued(
        self,
        conversation: Conversation,
        reply: AssistantMessage,
        images: Sequence[Image],
        thinking: Thinking,
        grid: int,
    ) -> RenderedPrompt:
        asked_for = conversation.model_copy(update={"messages": conversation.messages[:-1]})
        if asked_for.messages and isinstance(asked_for.messages[-1], AssistantMessage):
            raise InvalidRequestError("A reply can't follow another reply.")
        stored = stored_ids(reply, self.tokenizer_fingerprint, self.vocab_size)
        opened = reply.ids is not None and reply.ids.starts_in_reasoning
        asked = self.render(asked_for, images, thinking, grid)
        if stored is not None and asked.opens_reasoning != opened:
            # The thinking switch has changed since; the reply continues as it began.
            asked = self.render(asked_for, images, opened, grid)
        known = reply.ids.pauses if reply.ids is not None else ()
        if stored is None or asked.opens_reasoning != opened:
            stored, known = self._from_text(reply, asked.opens_reasoning), ()
        ends = [run.end.token for run in asked.prompt.runs if run.ends(CutKind.MESSAGE_END)]
        starts = (*asked.message_starts, ends[-1] if ends else asked.prompt.end.token)
        if not stored:
            return replace(asked, message_starts=starts)
        pauses = (*(pause for pause in known if 0 < pause < len(stored)), len(stored))
        segments = (*asked.prompt.segments, TextRun(tuple(stored)))
        paused = pauses_of(pauses, asked.prompt.num_tokens, len(stored))
        return RenderedPrompt(
            replace(asked.prompt, segments=segments, pauses=asked.prompt.pauses | paused),
            starts,
            asked.opens_reasoning,
            tuple(stored),
            pauses,
            asked.closes_reasoning,
        )

    def _from_text(self, reply: AssistantMessage, in_thought: bool) -> list[int]:
        ids, close = self._kit.tokenizer.ids, self._kit.thinking.close
        if self._kit.channels is not None and (reply.text or reply.reasoning):
            channel = ANSWER if reply.text else THOUGHT
            return [*self._kit.header_of(channel), *ids(reply.text or reply.reasoning)]
        if not in_thought or close is None:
            return ids(reply.text)
        if not reply.text:
            return ids(reply.reasoning)
        return [*ids(f"{reply.reasoning}\n"), close, *ids(f"\n\n{reply.text}")]

    def _pieces(self, conversation: Conversation, thinking: Thinking) -> list[Piece]:
        pieces = None
        if self.spliced:
            pieces = spliced_pieces(self._kit, self._traits, conversation, thinking)
        if pieces is None:
            pieces = plain_pieces(self._kit, self._traits, conversation, thinking)
        return pieces

    def _check(self, conversation: Conversation, images: Sequence[Image]) -> None:
        messages = conversation.messages
        if not messages or isinstance(messages[-1], SystemMessage):
            raise EmptyConversationError("Write a message first.")
        if any(isinstance(message, SystemMessage) for message in messages[1:]):
            raise InvalidRequestError("A system message can only come first.")
        if self.tools is None and next(tool_texts(conversation), None) is not None:
            raise NoToolsError(
                "This model's chat template has no tools, or writes calls in a syntax that "
                "Waymark can't read."
            )
        last = messages[-1]
        if isinstance(last, UserMessage) and not any(
            not isinstance(part, TextPart) or part.text.strip() for part in last.content
        ):
            raise EmptyConversationError("The last message is empty.")
        expected = sum(map(num_images, messages))
        if expected != len(images):
            raise InvalidRequestError(
                f"The conversation has {expected} pictures, but {len(images)} were sent."
            )
        if expected and not self.takes_images:
            raise NoVisionError("This model's chat template has no place for pictures.")

    def _last_control(self, pieces: Sequence[Piece]) -> int | None:
        own = takewhile(lambda piece: piece.message is None, reversed(pieces))
        controls = (each.content.id for each in own if isinstance(each.content, AddedToken))
        thinking = self._kit.thinking
        ours = self.end_of_turn_ids | {thinking.open, thinking.close}
        return next((token_id for token_id in controls if token_id in ours), None)


def _end_ids(
    files: TextFiles, kit: TextKit, traits: Traits
) -> tuple[frozenset[int], frozenset[int]]:
    named = kit.added.id_of(files.special_tokens.get("eos_token"))
    waits = kit.added.id_of(RESULT_BEGIN) if traits.tools == "gemma4" else None
    found = {token_id for token_id in (named, traits.closing_id, waits) if token_id is not None}
    if kit.channels is None:
        return (files.eos_ids | found,) * 2
    all_ids = files.eos_ids | found | kit.channels.ends
    return all_ids, all_ids - {kit.channels.end}


def _note(obstacle: str) -> str:
    return (
        f"Replies of this model are read again on the next turn, because {obstacle}. "
        "Everything before them is still reused."
    )


def _has_content(reply: AssistantMessage) -> bool:
    return bool(
        reply.text or reply.reasoning or reply.calls or (reply.ids is not None and reply.ids.data)
    )
