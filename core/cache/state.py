"""Recurrent states, checkpoints, and their copies to the host. Prefill advances copies of states;
decode updates one in place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor

from core.layers.memory import LayerSpec, RecurrentSpec

_LOG = logging.getLogger(__name__)
_HOST = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class LayerTensors:
    """By the index of a layer's spec in the model's `layer_specs`."""

    layers: Mapping[int, tuple[Tensor, ...]]

    @property
    def tensors(self) -> list[Tensor]:
        return [tensor for held in self.layers.values() for tensor in held]

    @property
    def num_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors)

    @property
    def kinds(self) -> dict[int, list[tuple[tuple[int, ...], torch.dtype]]]:
        return {
            layer: [(tuple(tensor.shape), tensor.dtype) for tensor in held]
            for layer, held in self.layers.items()
        }

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        return type(self)({layer: tuple(map(change, held)) for layer, held in self.layers.items()})


class RecurrentState(LayerTensors):
    @classmethod
    def zeros(cls, specs: Sequence[LayerSpec], device: torch.device) -> RecurrentState:
        return cls(
            {
                layer: tuple(
                    torch.zeros((), dtype=tensor.dtype, device=device).expand(tensor.shape)
                    for tensor in spec.tensors
                )
                for layer, spec in _recurrent(specs)
            }
        )

    def room(self) -> RecurrentState:
        return self.map(partial(torch.empty_like, memory_format=torch.contiguous_format))

    def copy(self) -> RecurrentState:
        return self.map(lambda tensor: tensor.clone(memory_format=torch.contiguous_format))

    def copy_from(self, other: RecurrentState) -> None:
        for layer, state in other.layers.items():
            for own, given in zip(self.layers[layer], state, strict=True):
                own.copy_(given)

    def matches(self, specs: Sequence[LayerSpec]) -> bool:
        return self.kinds == {
            layer: [(tensor.shape, tensor.dtype) for tensor in spec.tensors]
            for layer, spec in _recurrent(specs)
        }


def _recurrent(specs: Sequence[LayerSpec]) -> Iterator[tuple[int, RecurrentSpec]]:
    return ((n, spec) for n, spec in enumerate(specs) if isinstance(spec, RecurrentSpec))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Resuming needs this and the KV. With `last_hidden` [hidden], a prompt that ends there costs
    only the output head."""

    state: RecurrentState
    last_hidden: Tensor

    @property
    def num_bytes(self) -> int:
        return self.state.num_bytes

    @property
    def held_bytes(self) -> int:
        return self.state.num_bytes + self.last_hidden.nbytes

    def to(self, device: torch.device) -> Checkpoint:
        state = self.state.map(lambda tensor: tensor.to(device))
        return Checkpoint(state, self.last_hidden.to(device))


def own(tensor: Tensor) -> Tensor:
    """The tensor in its own storage, so that no larger one stays alive."""
    if tensor.untyped_storage().nbytes() == tensor.nbytes and tensor.is_contiguous():
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


class SideStream:
    """Copies tensors of a CUDA device to pinned host memory on its own stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def begin(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], torch.cuda.Event]:
        """Start copying until the event is done. Raises RuntimeError without pinned memory."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        arrival = torch.cuda.Event()
        with torch.cuda.stream(self._stream):
            copies = [torch.empty_like(each, device=_HOST, pin_memory=True) for each in tensors]
            for copy, tensor in zip(copies, tensors, strict=True):
                copy.copy_(tensor, non_blocking=True)
            arrival.record(self._stream)
        return copies, arrival


class HostCopies:
    """Copies checkpoints while the GPU computes. Call `wait` before reading one."""

    def __init__(self, copier: SideStream | None) -> None:
        self._copier = copier
        self._under_way: list[tuple[torch.cuda.Event, Checkpoint]] = []

    def take(self, checkpoint: Checkpoint) -> Checkpoint:
        if self._copier is None:
            return checkpoint.to(_HOST)
        self._under_way = [(due, source) for due, source in self._under_way if not due.query()]
        try:
            copies, arrival = self._copier.begin(
                [*checkpoint.state.tensors, checkpoint.last_hidden]
            )
        except RuntimeError as error:
            _LOG.warning("Checkpoints are copied one after the other: %s", error)
            self._copier = None
            return checkpoint.to(_HOST)
        self._under_way.append((arrival, checkpoint))
        return _with_tensors(checkpoint, copies)

    def wait(self) -> None:
        while self._under_way:
            self._under_way.pop()[0].synchronize()


def _with_tensors(checkpoint: Checkpoint, tensors: Sequence[Tensor]) -> Checkpoint:
    left = iter(tensors)
    return Checkpoint(checkpoint.state.map(lambda _: next(left)), next(left))
