"""What every family offers to the engine; the engine knows no family by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from core.layers.memory import LayerMemory, LayerSpec
from core.layers.rope import Rotations


class Model(Protocol):
    """A loaded model. The same call on the same machine gives the same bits."""

    device: torch.device
    dtype: torch.dtype
    hidden_size: int
    # Numbers of a picture's token: more than those of a text's where several layers are given some.
    image_width: int
    vocab_size: int
    max_positions: int
    num_parameters: int
    # Whether the bits of a row of a forward depend on no other but by attention and states.
    batch_invariant: bool
    # Whether a step of a few tokens has the bits of as many steps of one.
    batch_invariant_steps: bool

    @property
    def has_vision(self) -> bool: ...

    @property
    def vision_config(self) -> Mapping[str, Any]:
        """The vision tower's part of config.json, with what it leaves out; empty without one."""
        ...

    @property
    def has_mtp(self) -> bool:
        """Whether there is a head that predicts the token after the next."""
        ...

    @property
    def layer_specs(self) -> tuple[LayerSpec, ...]:
        """What is remembered: one slot for each mixer, in the order of the forward, and one for an
        MTP head."""
        ...

    def embed(self, ids: Tensor) -> Tensor:
        """Token ids [n] -> [n, hidden_size]."""
        ...

    def encode_image(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """One picture's patches [rows * columns, patch width] -> [tokens, image_width]."""
        ...

    def forward(
        self, embeddings: Tensor, positions: Tensor, memory: LayerMemory, *, image: bool = False
    ) -> Tensor:
        """[n, hidden_size] at positions [3, n] -> [n, hidden_size] after the final norm.

        `image` says that the rows are one whole picture, [n, image_width]: some families let its
        tokens attend to one another both ways.
        """
        ...

    def rotations(self, positions: Tensor, runs: tuple[int, ...]) -> Rotations:
        """How positions [3, n] of `runs` rotate queries and keys, for every kind of layer that
        asks."""
        ...

    def through(
        self, hidden: Tensor, rotations: Rotations, memory: LayerMemory, *, image: bool = False
    ) -> Tensor:
        """`forward` for tokens whose `rotations` are known."""
        ...

    def head_inputs(self, embeddings: Tensor, hidden: Tensor) -> Tensor:
        """What the MTP head reads of tokens with `embeddings` [n, hidden_size], given the rows
        `hidden` [n, hidden_size] of those before them -> [n, 2 hidden_size]."""
        ...

    def predict(self, inputs: Tensor, rotations: Rotations, memory: LayerMemory) -> Tensor:
        """The MTP head's rows [n, hidden_size] of `head_inputs`, at the positions of the tokens
        before; `logits` are those of the tokens behind."""
        ...

    def likeliest(self, hidden: Tensor) -> int:
        """The token that most likely stands behind a row [hidden_size] of the MTP head; the rarest
        may be left out."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """[m, hidden_size] after the final norm -> [m, vocab_size] float32."""
        ...
