"""A real engine over a tiny random model, with a count of all that goes through the model.

A `Machine` has a context cache and a picture catalog of its own; the weights are shared. Whatever
it is asked, the counters it reports are compared with what was really computed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import torch
from torch import Tensor

from core.api.chat import (
    AssistantMessage,
    Conversation,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    UserMessage,
)
from core.api.commands import Forget, Generate, LoadModel, Predict, PrefillDraft, PrefillReply
from core.api.events import Event, Finished, Predicted, Prepared
from core.api.params import CacheSettings, DraftSettings, ModelSettings, Probe, SamplingParams
from core.api.prompt import Image, Prompt
from core.cache.context import Budgets, ContextCache
from core.cache.disk.store import SegmentStore
from core.cache.node import Node
from core.engine.cancel import CancelFlag
from core.engine.engine import Engine
from core.engine.images import ImageCatalog
from core.engine.loaded import LoadedModel
from core.engine.sampling import Sampler
from core.models.decoder import Decoder
from core.storage.files import Files
from core.storage.store import DiskStore
from core.vision.decode import PictureDecoder
from tests.cache.disk.worlds import check_integrity
from tests.cache.worlds import traces
from tests.oracle.checkpoints import token_id
from tests.storage.disks import PLENTY, FailingFiles

GREEDY = SamplingParams(temperature=0, max_tokens=4)
PENALTIES = (0.3, 0.4, 0.2, 0.5, 0.6, 0.1)
DEFAULT = CacheSettings(count=32, interval=1)
DRAFTED = DraftSettings()
# Of all machines: its process takes longer to start than to decode a test's pictures.
DECODER = PictureDecoder()


class Drafts(DraftSettings):
    """Draft settings, with the fields of a `Probe` that spoil drafts."""

    draft_noise: float = 0.0
    skip_rollback: bool = False


class CountingModel:
    """Passes everything on to a model and notes what was finished, prefill apart from decode."""

    def __init__(self, model: Decoder) -> None:
        self._model = model
        self.forget()

    def forget(self) -> None:
        self.fed: list[int] = []
        self.images_fed: list[int] = []
        self.is_read = False
        self.rows: list[Tensor] = []
        self.embeddings: list[Tensor] = []
        self.num_encoded = 0
        self.before_forward: Callable[[int], None] = lambda number: None
        self.say: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(
        self,
        embeddings: Tensor,
        positions: Tensor,
        memory: Any,
        *,
        image: bool = False,
        wanted: Sequence[int] | None = None,
    ) -> Tensor:
        self.before_forward(len(self.fed))
        hidden = self._model.forward(embeddings, positions, memory, image=image, wanted=wanted)
        if not self.is_read:
            self.fed.append(len(embeddings))
        if image:
            self.images_fed.append(len(embeddings))
        return hidden

    def encode_image(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        embedding = self._model.encode_image(pixels, rows, columns, check)
        self.num_encoded += 1
        self.embeddings.append(embedding)
        return embedding

    def logits(self, hidden: Tensor) -> Tensor:
        self.is_read = True
        return self._model.logits(hidden)

    def drawn(self, logits: Tensor) -> Tensor:
        """The logits a token is sampled from; `say` replaces them."""
        if self.say:
            logits = torch.full_like(logits, -100.0)
            logits[self.say.pop(0)] = 0.0
        self.rows.append(logits.clone())
        return logits


class CountdownFlag(CancelFlag):
    """Sets itself the n-th time somebody looks: between runs, layers, vision blocks or tokens."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.left = looks

    def check(self) -> None:
        if self.left == 0:
            self.set()
        self.left -= 1
        super().check()


@dataclass(frozen=True)
class Answer:
    """Result of a request: its last event, the logits of every drawn token, all events."""

    finished: Finished
    rows: tuple[Tensor, ...]
    fed: tuple[int, ...]
    events: tuple[Event, ...]

    @property
    def stats(self) -> Any:
        return self.finished.stats

    @property
    def reply(self) -> AssistantMessage:
        """The reply as one that ended by itself: four tokens are enough for most tests."""
        reply = self.finished.reply
        if reply.ids is None:
            return reply
        return reply.model_copy(update={"ids": reply.ids.model_copy(update={"pauses": ()})})

    @property
    def paused(self) -> AssistantMessage:
        """The reply as it ended: stopped or cut off."""
        reply = self.finished.reply
        assert reply.ids is not None and reply.ids.is_paused
        return reply

    @property
    def ids(self) -> tuple[int, ...]:
        return self.finished.reply_ids

    @property
    def reused(self) -> int:
        return self.finished.stats.reused_tokens

    @property
    def evaluated(self) -> int:
        return self.finished.stats.evaluated_tokens


@dataclass
class Machine:
    """One engine, on a cache folder if it is given one. `ask` answers a conversation and checks
    every counter on the way."""

    # Of those shown to it: more for large ones of a model that sees tiles.
    grids_of_a_picture = 1

    base: LoadedModel
    folder: Path | None = None
    files: Files = field(default_factory=FailingFiles)
    engine: Engine = field(init=False)
    model: CountingModel = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, base: LoadedModel | None = None, files: Files | None = None) -> None:
        """A new process, with this or another model: it knows what is on disk, and nothing else."""
        self.base = base = base or self.base
        self.files = files or self.files
        self.model = CountingModel(base.model)
        self.engine = Engine()
        specs, root = base.model.layer_specs, bytes.fromhex(base.info.fingerprint)
        store = None
        if self.folder is not None:
            store = SegmentStore(DiskStore(self.folder, 0, self.files), root, PLENTY)
        catalog = ImageCatalog(base.processor)
        catalog._decoder = DECODER
        self.engine.loaded = replace(
            base,
            model=cast(Any, self.model),
            catalog=catalog,
            cache=ContextCache(
                specs,
                base.model.device,
                base.info.context_length,
                root,
                Budgets(disk=PLENTY),
                store,
            ),
        )

    def write(self, segments: int | None = None) -> int:
        """Write so many segments to disk, or all there are to write; how many there were."""
        written = 0
        while written != segments and self.engine.write_some(CancelFlag()):
            written += 1
        self.check_whole()
        return written

    def reopen(self) -> None:
        """Quit cleanly and start again."""
        self.write()
        self.restart()

    def forget(self, chat: str | None) -> None:
        """Delete what only a chat used."""
        folder = str(self.folder) if self.folder is not None else None
        self.engine.forget(Forget(request=9, chat=chat, cache_folder=folder))
        self.check_whole()

    def check_whole(self) -> None:
        """Tree, store and ledger agree, and nothing was above the limits in force."""
        self.cache.check_integrity()
        assert self.cache.ledger.peak_host <= self.cache.ledger.limits.host
        if self.cache.disk.store is not None:
            check_integrity(self.cache.disk.store)

    @property
    def cache(self) -> ContextCache:
        assert self.engine.loaded is not None
        return self.engine.loaded.cache

    def ask(
        self,
        messages: Sequence[Message],
        cache: CacheSettings = DEFAULT,
        sampling: SamplingParams = GREEDY,
        flag: CancelFlag | None = None,
        draft: DraftSettings = DRAFTED,
        before_forward: Callable[[int], None] | None = None,
        say: Sequence[int] = (),
        **more: Any,
    ) -> Answer:
        """Answer, and check that the numbers told are those of what was computed.

        `say` are ids that the model is made to say first; fields of a `Probe` are among `more`.
        """
        probe = {name: more.pop(name) for name in Probe.model_fields if name in more}
        if isinstance(draft, Drafts):
            probe |= {"draft_noise": draft.draft_noise, "skip_rollback": draft.skip_rollback}
        command = Generate(
            request=7,
            conversation=Conversation(messages=tuple(messages)),
            cache=cache,
            sampling=sampling,
            draft=DraftSettings(mode=draft.mode, tokens=draft.tokens),
            probe=Probe(**probe),
            **more,
        )
        events: list[Event] = []
        self.cache.ledger.peak_host = 0
        self.model.forget()
        self.model.say = list(say)
        if before_forward is not None:
            self.model.before_forward = before_forward
        sample = Sampler.sample

        def drawn(sampler: Sampler, logits: Tensor, token_index: int) -> int:
            return sample(sampler, self.model.drawn(logits), token_index)

        with patch.object(Sampler, "sample", drawn):
            finished = self.engine.generate(command, flag or CancelFlag(), events.append)
        answer = Answer(finished, tuple(self.model.rows), tuple(self.model.fed), tuple(events))
        self._check(answer, cache if not command.side else None)
        return answer

    def predict(self, messages: Sequence[Message], **options: Any) -> Predicted:
        """Predict what the next request reads, and assert that nothing is computed for it."""
        command = Predict(
            request=6, conversation=Conversation(messages=tuple(messages)), cache=DEFAULT, **options
        )
        before = traces(self.cache)
        self.model.forget()
        predicted = self.engine.predict(command, CancelFlag())
        assert not self.model.fed and not self.model.num_encoded and traces(self.cache) == before
        return predicted

    def settle(self, messages: Sequence[Message], **options: Any) -> Prepared:
        """Read the reply that ends a chat as history shows it."""
        return self._prepare(PrefillReply, messages, **options)

    def read_ahead(self, messages: Sequence[Message], **options: Any) -> Prepared:
        """Read the draft that ends a chat."""
        return self._prepare(PrefillDraft, messages, **options)

    def _prepare(
        self,
        kind: type[PrefillReply] | type[PrefillDraft],
        messages: Sequence[Message],
        cache: CacheSettings = DEFAULT,
        flag: CancelFlag | None = None,
        chat: str = "",
    ) -> Prepared:
        conversation = Conversation(messages=tuple(messages))
        self.cache.ledger.peak_host = 0
        self.model.forget()
        try:
            command = kind(request=8, conversation=conversation, cache=cache, chat=chat)
            prepared = self.engine.prepare(command, flag or CancelFlag())
        finally:
            self.check_whole()
        assert prepared.tokens == sum(self.model.fed)
        assert prepared.encoded == self.model.num_encoded
        assert self.cache.num_states() <= cache.count
        return prepared

    def cold(self, messages: Sequence[Message], **options: Any) -> Answer:
        """The answer of another machine with the same weights that has read nothing."""
        answer = Machine(self.base).ask(messages, **options)
        assert answer.reused == 0
        return answer

    def same_as_cold(self, messages: Sequence[Message], **options: Any) -> Answer:
        """Answer warm; ids and the logits of every token must be those of the cold answer."""
        answer = self.ask(messages, **options)
        same(answer, self.cold(messages, **options))
        return answer

    def prompt(self, messages: Sequence[Message]) -> Prompt:
        loaded = self.engine.loaded
        assert loaded is not None
        conversation = Conversation(messages=tuple(messages))
        images = loaded.catalog.segments(conversation.pictures, lambda: None)
        return loaded.text.render(conversation, images, None, loaded.settings.grid).prompt

    def held(self, messages: Sequence[Message]) -> list[Node]:
        """The nodes that the tree holds along a conversation."""
        tree = self.cache.tree
        return tree.match(tree.keys(self.prompt(messages)))

    def _check(self, answer: Answer, cache: CacheSettings | None) -> None:
        stats = answer.stats
        assert stats.evaluated_tokens == sum(answer.fed)
        assert stats.images_encoded * self.grids_of_a_picture == self.model.num_encoded
        if answer.finished.reason != "cancelled" or answer.ids:
            assert stats.reused_tokens + stats.evaluated_tokens == stats.prompt_tokens
        assert stats.prompt_tokens == len(answer.finished.prompt_ids)
        assert stats.reply_tokens == len(answer.ids)
        assert stats.checkpoints_held == self.cache.num_states()
        # A side request applies no settings.
        assert cache is None or self.cache.num_states() <= cache.count
        self.check_whole()


def same(one: Answer, other: Answer) -> None:
    """The same ids, and logits equal to the bit, for every drawn token."""
    assert one.finished.prompt_ids == other.finished.prompt_ids
    assert one.ids == other.ids
    assert len(one.rows) == len(other.rows) > 0
    for step, (left, right) in enumerate(zip(one.rows, other.rows, strict=True)):
        assert torch.equal(left, right), f"the logits of token {step} differ"


def same_from_every_checkpoint(
    base: LoadedModel,
    chat: Sequence[Message],
    sampling: SamplingParams,
    ways: Sequence[bool] = (False, True),
) -> Answer:
    """Assert that each checkpoint, in the KV buffer and after a branch, gives the cold answer.

    Returns the cold answer.
    """
    cold = Machine(base).ask(chat, sampling=sampling)
    for branched in ways:
        machine = Machine(base)
        for place in reversed([held.token for held in cold.stats.checkpoints]):
            machine.ask(chat, sampling=sampling)
            for node in machine.held(chat):
                if node.end.token.value > place:
                    machine.cache.tree.drop_checkpoint(node)
            if branched:
                machine.ask([user("elsewhere " + words(150, "e"))], sampling=sampling)
            answer = machine.ask(chat, sampling=sampling)
            assert answer.stats.restored_at.token == answer.reused == place
            assert answer.stats.restored_from == ("memory" if branched else "slab")
            same(answer, cold)
    return cold


def load(folder: Path, **settings: Any) -> LoadedModel:
    """A model folder, loaded as the window would; the grid is small, so that texts have runs."""
    given: dict[str, Any] = {
        "device": "cpu",
        "precision": "float32",
        "grid": 64,
        "max_image_tokens": 0,
    }
    engine = Engine()
    engine.load(
        LoadModel(request=1, settings=ModelSettings(path=str(folder), **(given | settings))),
        CancelFlag(),
        lambda event: None,
    )
    assert engine.loaded is not None
    return engine.loaded


def user(*parts: str | ImagePart) -> UserMessage:
    """A message of texts and pictures."""
    return UserMessage(
        content=tuple(TextPart(text=part) if isinstance(part, str) else part for part in parts)
    )


def system(text: str) -> SystemMessage:
    return SystemMessage(text=text)


def words(count: int, salt: str = "") -> str:
    """Text of about three tokens a word that never repeats a stretch."""
    return " ".join(f"{salt}{index}" for index in range(count))


def chat_with_pictures(picture: Callable[..., ImagePart]) -> list[Message]:
    said = words(60)
    return [system("Be brief."), user(said, picture(1, "wide"), words(80, "q"), picture(2))]


def spans(prompt: Prompt) -> list[tuple[int, int]]:
    """First token and end of every picture."""
    return [
        (run.start.token.value, run.end.token.value)
        for run in prompt.runs
        if isinstance(run.content, Image)
    ]


def last_end(ids: Sequence[int], ends: Collection[int] = (token_id("<|im_end|>"),)) -> int:
    """The token index right after the last end of a message: where the newest cut lies."""
    return next(index + 1 for index in reversed(range(len(ids))) if ids[index] in ends)


def num_common(one: Sequence[object], other: Sequence[object]) -> int:
    """How many leading ids two prompts share."""
    pairs = enumerate(zip(one, other, strict=False))
    return next(
        (index for index, (left, right) in pairs if left != right), min(len(one), len(other))
    )


def two_hundred_tokens(
    base: LoadedModel, messages: Sequence[Message], folder: Path
) -> tuple[Machine, SamplingParams, Answer]:
    """A machine, the greedy settings under which it has just said 200 tokens, and its answer.

    Random weights end a reply at any token, and at which one hangs on a processor's last bits.
    """
    for number, penalty in enumerate(PENALTIES):
        machine = Machine(base, folder / f"cache{number}")
        sampling = SamplingParams(temperature=0, max_tokens=200, frequency_penalty=penalty)
        answer = machine.ask(messages, sampling=sampling)
        if len(answer.ids) == 200:
            return machine, sampling, answer
    raise AssertionError("the model never goes on for 200 tokens")
