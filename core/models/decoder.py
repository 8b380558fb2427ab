"""What the families share: a table of embeddings, blocks, a final norm and a head; perhaps a tower.

Knows the order in which a forward goes through them. What a block computes, how positions rotate
and what the tensors are called in the files is each family's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from core.api.errors import NoVisionError
from core.layers.memory import LayerMemory, LayerSpec
from core.layers.mtp import MTPHead
from core.layers.rope import Rotation, Rotations
from core.models.config.settings import Settings
from core.weights.plan import Weights

# Tokens that an MTP head may draft. The output head is a third of a small model's step, and a
# vocabulary's first tokens are its most frequent.
DRAFTED = 65_536


class Block(Protocol):
    """One layer of the text stack."""

    @property
    def specs(self) -> tuple[LayerSpec, ...]:
        """What the block needs remembered: a slot for each mixer, none for a block without any."""
        ...

    def __call__(
        self, hidden: Tensor, rotations: Rotations, memory: LayerMemory, layer: int, image: bool
    ) -> Tensor:
        """[n, hidden_size] -> [n, hidden_size]; `layer` is its first slot of the memory.

        `image` says that the rows are one whole picture.
        """
        ...


class Tower(Protocol):
    """What turns a picture into rows that stand where token embeddings would."""

    @property
    def config(self) -> Settings:
        """The tower's part of config.json, with what it leaves out."""
        ...

    def __call__(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """Patches [rows * columns, patch width] -> [tokens, image_width]; `check` may raise."""
        ...


@dataclass(frozen=True, slots=True)
class Stack:
    """The parts that a family builds itself, and the sizes of those that are alike everywhere.

    `tied`: the head is the table of embeddings. The multipliers are of embeddings and logits. `mtp`
    predicts the token after the next. `image_layers`: after so many of the first blocks further
    features of a picture are added to its tokens (DeepStack, Meng et al. 2024, arXiv:2406.04334).
    """

    vocab_size: int
    hidden_size: int
    max_positions: int
    tied: bool
    blocks: Sequence[Block]
    norm: Callable[[Tensor], Tensor]
    ropes: Mapping[str, Callable[[Tensor], Rotation]]
    tower: Tower | None = None
    mtp: MTPHead | None = None
    image_layers: int = 0
    embedding_multiplier: float = 1.0
    logits_multiplier: float = 1.0


class Decoder:
    """A `Model` (core.models.model) over a `Stack`.

    The same call on the same machine gives the same bits: every choice of kernel or row block
    depends on shapes alone.
    """

    def __init__(self, stack: Stack, weights: Weights, text: Weights, device: torch.device) -> None:
        """`text` is the scope in `weights` of the text stack, where the table lies."""
        table = (stack.vocab_size, stack.hidden_size)
        self.device, self.dtype = device, weights.dtype
        self.hidden_size, self.vocab_size = stack.hidden_size, stack.vocab_size
        self.image_width = stack.hidden_size * (1 + stack.image_layers)
        self.max_positions = stack.max_positions
        self.embedding = text.table("embed_tokens.weight", table)
        scope, name = (text, "embed_tokens") if stack.tied else (weights, "lm_head")
        self.head = scope.matrix([(name, stack.vocab_size)], stack.hidden_size)
        self._draft_head = self.head.first(DRAFTED)
        self.blocks, self.norm, self.ropes = stack.blocks, stack.norm, stack.ropes
        self.tower, self.mtp = stack.tower, stack.mtp
        self._multipliers = stack.embedding_multiplier, stack.logits_multiplier
        self.num_parameters = weights.num_parameters
        self.batch_invariant = weights.batch_invariant
        self.batch_invariant_steps = weights.batch_invariant_steps

    @property
    def has_vision(self) -> bool:
        return self.tower is not None

    @property
    def vision_config(self) -> dict[str, Any]:
        """The tower's part of config.json, with what it leaves out; empty without a tower."""
        return self.tower.config.model_dump() if self.tower is not None else {}

    @property
    def has_mtp(self) -> bool:
        return self.mtp is not None

    @property
    def layer_specs(self) -> tuple[LayerSpec, ...]:
        """What is remembered: the slots of all blocks, in their order, and the MTP head's."""
        specs = tuple(spec for block in self.blocks for spec in block.specs)
        return specs if self.mtp is None else (*specs, self.mtp.spec)

    @torch.inference_mode()
    def embed(self, ids: Tensor) -> Tensor:
        """Token ids [n] -> [n, hidden_size]."""
        rows, multiplier = self.embedding(ids), self._multipliers[0]
        return rows if multiplier == 1 else rows * multiplier

    @torch.inference_mode()
    def encode_image(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """One picture's patches [rows * columns, patch width] float32 -> [tokens, image_width].

        Calls `check`, which may raise, between blocks. Raises NoVisionError without a tower.
        """
        if self.tower is None:
            raise NoVisionError("This model reads text only.")
        return self.tower(pixels.to(self.device), rows, columns, check)

    @torch.inference_mode()
    def forward(
        self, embeddings: Tensor, positions: Tensor, memory: LayerMemory, *, image: bool = False
    ) -> Tensor:
        """Run [n, hidden_size] at `positions` [3, n] after what `memory` holds.

        An `image` has to come whole, [n, image_width]: some families let its rows attend to one
        another both ways.
        Returns [n, hidden_size] after the final norm. Raises RequestCancelled between layers.
        """
        rotations = self.rotations(positions, memory.runs)
        return self.through(embeddings, rotations, memory, image=image)

    @torch.inference_mode()
    def rotations(self, positions: Tensor, runs: tuple[int, ...]) -> Rotations:
        """How positions [3, n] of `runs` rotate queries and keys, for every kind of layer that
        asks."""
        if len(runs) == 1:
            return {name: rope(positions) for name, rope in self.ropes.items()}
        # Run by run: torch's cosine rounds otherwise at the end of a tensor than within it.
        apart = [self.rotations(each, (each.shape[1],)) for each in positions.split(runs, dim=1)]
        return {name: _joined([run[name] for run in apart]) for name in self.ropes}

    @torch.inference_mode()
    def through(
        self, hidden: Tensor, rotations: Rotations, memory: LayerMemory, *, image: bool = False
    ) -> Tensor:
        """`forward` for tokens whose `rotations` are known."""
        hidden, *features = hidden.split(self.hidden_size, dim=1)
        layer = 0
        for index, block in enumerate(self.blocks):
            memory.check_cancelled()
            hidden = block(hidden, rotations, memory, layer, image)
            if index < len(features):
                hidden = hidden + features[index]
            layer += len(block.specs)
        return self.norm(hidden)

    @torch.inference_mode()
    def head_inputs(self, embeddings: Tensor, hidden: Tensor) -> Tensor:
        """What the MTP head reads of tokens with `embeddings` [n, hidden_size], given the rows
        `hidden` [n, hidden_size] of those before them -> [n, 2 hidden_size]."""
        assert self.mtp is not None
        return self.mtp.inputs(embeddings, hidden)

    @torch.inference_mode()
    def predict(self, inputs: Tensor, rotations: Rotations, memory: LayerMemory) -> Tensor:
        """The MTP head's rows [n, hidden_size] of `head_inputs`, at the positions of the tokens
        before; `logits` are those of the tokens behind."""
        assert self.mtp is not None
        memory.check_cancelled()
        return self.mtp(inputs, rotations, memory, len(self.layer_specs) - 1)

    @torch.inference_mode()
    def likeliest(self, hidden: Tensor) -> int:
        """The likeliest token behind a row [hidden_size] of the MTP head, of the first DRAFTED."""
        return int(self._draft_head.step(hidden[None])[0].argmax())

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """[m, hidden_size] after the final norm -> [m, vocab_size] float32."""
        logits, multiplier = self.head.step(hidden).float(), self._multipliers[1]
        return logits if multiplier == 1 else logits * multiplier


def _joined(rotations: Sequence[Rotation]) -> Rotation:
    cosines, sines = zip(*rotations, strict=True)
    return torch.cat(cosines), torch.cat(sines)
