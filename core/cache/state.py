"""The recurrent states of all layers at one place, and a checkpoint: those states kept in the tree.

States are values: a run moves a copy on and never writes into what was before, so keeping a state
costs no copy and undoing a cancelled chunk means dropping the new one. One-token steps, whose
states nobody keeps, update one copy in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.layers.memory import LayerSpec, LayerState, RecurrentSpec


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """One state per recurrent layer, by layer index; empty for a pure transformer."""

    layers: Mapping[int, LayerState]

    @classmethod
    def zeros(cls, specs: Sequence[LayerSpec], device: torch.device) -> RecurrentState:
        """The state before the first token: each tensor is one number seen from everywhere, for
        nobody writes into a state."""
        return cls(
            {
                layer: tuple(
                    torch.zeros((), dtype=tensor.dtype, device=device).expand(tensor.shape)
                    for tensor in spec.tensors
                )
                for layer, spec in enumerate(specs)
                if isinstance(spec, RecurrentSpec)
            }
        )

    def room(self) -> RecurrentState:
        """Memory for another state of these shapes, without content."""
        return RecurrentState(
            {
                layer: tuple(
                    torch.empty_like(tensor, memory_format=torch.contiguous_format)
                    for tensor in state
                )
                for layer, state in self.layers.items()
            }
        )

    def copy(self) -> RecurrentState:
        """The same in memory of its own, to be updated in place."""
        return RecurrentState(
            {
                layer: tuple(
                    tensor.clone(memory_format=torch.contiguous_format) for tensor in state
                )
                for layer, state in self.layers.items()
            }
        )

    def copy_from(self, other: RecurrentState) -> None:
        """Become what `other` is, which has the same tensors, without moving to another place."""
        for layer, state in other.layers.items():
            for own, given in zip(self.layers[layer], state, strict=True):
                own.copy_(given)

    @property
    def num_bytes(self) -> int:
        return sum(tensor.nbytes for state in self.layers.values() for tensor in state)

    def matches(self, specs: Sequence[LayerSpec]) -> bool:
        """Whether every recurrent layer has its tensors in the declared shapes and types."""
        declared = {
            layer: [(tensor.shape, tensor.dtype) for tensor in spec.tensors]
            for layer, spec in enumerate(specs)
            if isinstance(spec, RecurrentSpec)
        }
        found = {
            layer: [(tuple(tensor.shape), tensor.dtype) for tensor in state]
            for layer, state in self.layers.items()
        }
        return declared == found


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything but the KV that is needed to go on from a place, or to answer right there.

    `last_hidden` [hidden] is the last token's row after the final norm: with it, a prompt that ends
    at this place costs the output head alone.
    """

    state: RecurrentState
    last_hidden: Tensor

    @property
    def num_bytes(self) -> int:
        """Bytes of the recurrent states, which is what the user is shown."""
        return self.state.num_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of all of it, which is what the budget counts."""
        return self.state.num_bytes + self.last_hidden.nbytes

    def to(self, device: torch.device) -> Checkpoint:
        """The same on another device; itself when it is there."""
        layers = {
            layer: tuple(tensor.to(device) for tensor in state)
            for layer, state in self.state.layers.items()
        }
        return Checkpoint(RecurrentState(layers), self.last_hidden.to(device))


def own(tensor: Tensor) -> Tensor:
    """The tensor with a storage of its own, so that keeping it keeps nothing larger alive."""
    if tensor.untyped_storage().nbytes() == tensor.nbytes and tensor.is_contiguous():
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)
