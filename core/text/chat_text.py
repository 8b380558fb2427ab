"""The facade of `core.text`: a loaded model's tokenizer and chat template as one thing.

From a conversation to a prompt (`render`) and from sampled ids to text (`reply_reader`). Pictures
are given as `Image` segments; what they look like is `core.vision`'s business.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from llguidance import LLTokenizer

from core.api.chat import (
    AssistantMessage,
    Conversation,
    Message,
    SystemMessage,
    UserMessage,
)
from core.api.errors import (
    BrokenTokenizerError,
    EmptyConversationError,
    InvalidRequestError,
    NoVisionError,
    TemplateError,
)
from core.api.params import SamplingParams
from core.api.positions import TokenIndex
from core.api.prompt import CutKind, Image, Prompt, Run, Segment, TextRun
from core.helper.process import Helper
from core.text.assembly import assemble, pauses_of
from core.text.files import TextFiles, read_text_files
from core.text.history import (
    Traits,
    holds_something,
    plain_pieces,
    says_something,
    spliced_pieces,
)
from core.text.kit import TEXT_MEMORY_BYTES, TextKit, build_kit
from core.text.probes import splicing_obstacle
from core.text.reply.parts import stored_ids
from core.text.reply.reader import Delta, ReplyReader
from core.text.sampling_defaults import sampling_defaults
from core.text.splicing import Piece, message_places
from core.text.template.masking import num_images
from core.text.tokenizer.added_tokens import AddedToken
from core.text.tokenizer.spelling import spelling_tokens
from core.text.traits import probe_traits

__all__ = ["ChatText", "Delta", "RenderedPrompt", "ReplyReader"]


@dataclass(frozen=True)
class RenderedPrompt:
    """A prompt and what its parts are.

    `message_starts` holds, for each message but the system's, the first token of its part (the
    template's header included). `opens_reasoning`: the reply begins inside an open thought.
    `begun` are the ids of a reply that the prompt continues, the prompt's last tokens; `pauses` the
    numbers of them after which the reply has paused so far, all of them included.
    `closes_reasoning`: the template itself has closed a thought just before the reply.
    """

    prompt: Prompt
    message_starts: tuple[TokenIndex, ...]
    opens_reasoning: bool
    begun: tuple[int, ...] = ()
    pauses: tuple[int, ...] = ()
    closes_reasoning: bool = False


class ChatText:
    """Everything a loaded model knows about text.

    `end_of_turn_ids` close a message in a prompt, `stop_ids` end a sampled reply. `spliced` is
    False where history has to be tokenised again, with a `note` that says why to a user.
    """

    def __init__(self, files: TextFiles, check: Callable[[], None] | None = None) -> None:
        """Build and probe. Raises BrokenTokenizerError, BrokenConfigError, TemplateError, and what
        `check` raises."""
        # A process for each model: what one's files do to it can't reach another's conversations.
        helper = Helper(TEXT_MEMORY_BYTES)
        with helper.checking(check):
            self._kit = build_kit(files, helper)
            self._traits = probe_traits(self._kit)
            obstacle = splicing_obstacle(self._kit, self._traits)
        self.tokenizer_fingerprint = files.fingerprint
        self.vocab_size = self._kit.vocab_size
        self.image_token_id = self._kit.image_token_id
        self.has_thinking_switch = self._traits.has_thinking_switch
        self.thinking = self._kit.thinking
        self.takes_images = self._traits.takes_images
        self.sampling_defaults: SamplingParams = sampling_defaults(files.generation_config)
        self.end_of_turn_ids = _end_ids(files, self._kit, self._traits)
        self.stop_ids = self.end_of_turn_ids
        self.spliced = not obstacle
        self.note = "" if self.spliced else _note(obstacle)

    @classmethod
    def open(cls, folder: Path, check: Callable[[], None] | None = None) -> ChatText:
        """Read a model folder.

        Raises MissingFileError besides what building raises.
        """
        return cls(read_text_files(folder), check)

    def added_id(self, spelling: str) -> int | None:
        """The id of an added token."""
        return self._kit.added.id_of(spelling)

    def count(self, text: str) -> int:
        """The tokens of a text that stands inside a message; nothing of it is remembered.

        May be called from any thread. Raises BrokenTokenizerError.
        """
        return len(self._kit.tokenizer.encode(text, at_start=False).ids) if text else 0

    def render(
        self,
        conversation: Conversation,
        images: Sequence[Image],
        thinking: bool | None,
        grid: int,
    ) -> RenderedPrompt:
        """The prompt that asks for the next reply; `grid` is the spacing of cuts in tokens.

        A conversation that ends in a reply asks for the rest of that reply. `images` are those of
        the conversation's ImageParts, in order. Raises EmptyConversationError, InvalidRequestError,
        NoVisionError, TemplateError, BrokenTokenizerError.
        """
        last = conversation.messages[-1] if conversation.messages else None
        if isinstance(last, AssistantMessage):
            return self._continued(conversation, last, images, thinking, grid)
        self._check(conversation, images)
        kept = self._in_prompt(conversation.messages)
        messages = tuple(conversation.messages[index] for index in kept)
        pieces = self._pieces(conversation.model_copy(update={"messages": messages}), thinking)
        places = message_places(pieces, messages, self.end_of_turn_ids)
        # What is not in the prompt has its place where the next message begins.
        starts = [places[bisect_left(kept, index)] for index in range(len(conversation.messages))]
        if isinstance(conversation.messages[0], SystemMessage):
            del starts[0]
        assembly, message_starts = assemble(pieces, starts, self._kit.encoder, images)
        segments, pauses = tuple(assembly.segments), frozenset(assembly.pauses)
        self._check_ids(segments)
        if not any(segment.num_tokens for segment in segments):
            raise TemplateError("The template writes nothing for this conversation.")
        prompt = Prompt(segments, self.end_of_turn_ids, grid, pauses)
        return RenderedPrompt(
            prompt,
            message_starts,
            self._opens_reasoning(pieces),
            closes_reasoning=self._closes_reasoning(pieces),
        )

    def _check_ids(self, segments: Sequence[Segment]) -> None:
        """A GPU that is asked for a row that its table lacks is of no use afterwards."""
        if self._kit.tokenizer.table.num_ids <= self.vocab_size:
            return
        for segment in segments:
            if isinstance(segment, TextRun) and max(segment.ids, default=0) >= self.vocab_size:
                raise BrokenTokenizerError(
                    f"The model's tokenizer gives token {max(segment.ids)}; the model has "
                    f"{self.vocab_size:,} of them."
                )

    def _in_prompt(self, messages: Sequence[Message]) -> list[int]:
        """The places of the messages that the template is shown.

        A reply that failed or was stopped before its first id is left out, unless the template
        wants a reply to every question: the model would learn from it to say nothing.
        """
        keeps_all = not self._traits.takes_questions_in_a_row
        return [
            index
            for index, message in enumerate(messages)
            if keeps_all or not isinstance(message, AssistantMessage) or holds_something(message)
        ]

    @cached_property
    def spelling(self) -> LLTokenizer:
        """What all ids spell, for grammars. Raises ReplyFormatError where that can't be said."""
        kit = self._kit
        return spelling_tokens(
            kit.tokenizer, kit.tokens, kit.encoder, self.stop_ids, self.vocab_size
        )

    def reply_reader(
        self, rendered: RenderedPrompt, stop: tuple[str, ...], keeps_blanks: bool = False
    ) -> ReplyReader:
        """A reader for the reply to `rendered`, with the user's stop strings. With `keeps_blanks`
        an answer's first blanks behind a thought belong to it.

        One that spells an added token means that token, which may show no text to be found in. Of a
        reply that is gone on with the reader has read what there is.
        """
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
        )

    def forget(self) -> None:
        """Drop what is remembered of conversations."""
        self._kit.encoder.remembered.clear()
        self._kit.tokenizer.forget()

    def _continued(
        self,
        conversation: Conversation,
        reply: AssistantMessage,
        images: Sequence[Image],
        thinking: bool | None,
        grid: int,
    ) -> RenderedPrompt:
        """The prompt that was answered, followed by the reply's own ids, no turn end between.

        It is cut where earlier prompts ended, so a request resumes from what they left.
        """
        asked_for = conversation.model_copy(update={"messages": conversation.messages[:-1]})
        if asked_for.messages and isinstance(asked_for.messages[-1], AssistantMessage):
            raise InvalidRequestError("Two replies stand behind one another.")
        stored = stored_ids(reply, self.tokenizer_fingerprint, self.vocab_size)
        opened = reply.ids is not None and reply.ids.starts_in_reasoning
        asked = self.render(asked_for, images, thinking, grid)
        if stored is not None and asked.opens_reasoning != opened:
            # The thinking switch was turned since; the reply goes on as it was begun.
            asked = self.render(asked_for, images, opened, grid)
        known = reply.ids.pauses if reply.ids is not None else ()
        if stored is None or asked.opens_reasoning != opened:
            stored, known = self._from_text(reply, asked.opens_reasoning), ()
        if not stored:
            return asked
        pauses = (*(pause for pause in known if 0 < pause < len(stored)), len(stored))
        segments = (*asked.prompt.segments, TextRun(tuple(stored)))
        paused = pauses_of(pauses, asked.prompt.num_tokens, len(stored))
        ends = [run.end.token for run in asked.prompt.runs if _ends_message(run)]
        return RenderedPrompt(
            Prompt(segments, self.end_of_turn_ids, grid, asked.prompt.pauses | paused),
            (*asked.message_starts, ends[-1] if ends else asked.prompt.end.token),
            asked.opens_reasoning,
            tuple(stored),
            pauses,
            asked.closes_reasoning,
        )

    def _from_text(self, reply: AssistantMessage, in_thought: bool) -> list[int]:
        """Ids for a reply that another tokenizer sampled; `in_thought`: they follow an open one."""
        encoder, close = self._kit.encoder, self._kit.thinking.close
        if not in_thought or close is None:
            return encoder.ids(reply.text)
        if not reply.text:
            return encoder.ids(reply.reasoning)
        thought = encoder.ids(f"{reply.reasoning}\n")
        return [*thought, close, *encoder.ids(f"\n\n{reply.text}")]

    def _pieces(self, conversation: Conversation, thinking: bool | None) -> list[Piece]:
        """Spliced where this template allows it, and this conversation does not prove otherwise."""
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
        last = messages[-1]
        if isinstance(last, UserMessage) and not says_something(last):
            raise EmptyConversationError("The last message is empty.")
        expected = sum(map(num_images, messages))
        if expected != len(images):
            raise InvalidRequestError(f"{len(images)} pictures came for {expected} places.")
        if expected and not self.takes_images:
            raise NoVisionError("This model's chat template has no place for pictures.")

    def _opens_reasoning(self, pieces: Sequence[Piece]) -> bool:
        """Whether the template's last words open a thought and leave it open."""
        closing = self.end_of_turn_ids | {self._kit.thinking.close}
        for piece in reversed(pieces):
            if piece.message is not None:
                return False
            if isinstance(piece.content, AddedToken):
                if piece.content.id in closing:
                    return False
                if piece.content.id == self._kit.thinking.open:
                    return self._kit.thinking.known
        return False

    def _closes_reasoning(self, pieces: Sequence[Piece]) -> bool:
        """True if the last control token that the template writes before a reply closes a thought,
        as it does to say that there is none."""
        own = takewhile(lambda piece: piece.message is None, reversed(pieces))
        controls = (each.content.id for each in own if isinstance(each.content, AddedToken))
        thinking = self._kit.thinking
        ours = self.end_of_turn_ids | {thinking.open, thinking.close}
        last = next((token_id for token_id in controls if token_id in ours), None)
        return thinking.known and last == thinking.close


def _ends_message(run: Run) -> bool:
    return run.kind is not None and bool(run.kind & CutKind.MESSAGE_END)


def _end_ids(files: TextFiles, kit: TextKit, traits: Traits) -> frozenset[int]:
    """What the files call an end of sequence, and what the template writes after a reply."""
    named = kit.added.id_of(files.special_tokens.get("eos_token"))
    found = {token_id for token_id in (named, traits.closing_id) if token_id is not None}
    return files.eos_ids | found


def _note(obstacle: str) -> str:
    return (
        f"Replies of this model are read again on the next turn, because {obstacle}. "
        "Everything before them is still reused."
    )
