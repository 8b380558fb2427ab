"""Checkpoints on their way from a GPU's memory to the host's, while the GPU goes on computing.

A copy is begun when a checkpoint is kept. What it is made from stays until it has arrived, and who
reads a checkpoint waits first.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from core.cache.state import Checkpoint, RecurrentState

_LOG = logging.getLogger(__name__)
_HOST = torch.device("cpu")


class Arrival(Protocol):
    """When some copies are there; CUDA's events are like this."""

    def query(self) -> bool:
        """Whether they are."""
        ...

    def synchronize(self) -> None:
        """Wait until they are."""
        ...


class Copier(Protocol):
    """Copies tensors to the host beside what the device does."""

    def begin(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Arrival]:
        """Where the copies will be. Raises RuntimeError where the host has no room for that."""
        ...


class SideStream:
    """A `Copier` of a CUDA device: a stream of its own, into memory that can't be paged out."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def begin(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Arrival]:
        """As `Copier`."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        arrival = torch.cuda.Event()
        with torch.cuda.stream(self._stream):
            copies = [torch.empty_like(each, device=_HOST, pin_memory=True) for each in tensors]
            for copy, tensor in zip(copies, tensors, strict=True):
                copy.copy_(tensor, non_blocking=True)
            arrival.record(self._stream)
        return copies, arrival


class HostCopies:
    """The copies that are under way. Without a `copier` each is made at once."""

    def __init__(self, copier: Copier | None) -> None:
        self._copier = copier
        self._under_way: list[tuple[Arrival, Checkpoint]] = []

    def take(self, checkpoint: Checkpoint) -> Checkpoint:
        """The same on the host, whole once `wait` returns; itself when it is there."""
        if self._copier is None:
            return checkpoint.to(_HOST)
        self._under_way = [(due, source) for due, source in self._under_way if not due.query()]
        try:
            copies, arrival = self._copier.begin(_tensors(checkpoint))
        except RuntimeError as error:
            _LOG.warning("Checkpoints are copied one after the other: %s", error)
            self._copier = None
            return checkpoint.to(_HOST)
        self._under_way.append((arrival, checkpoint))
        return _with_tensors(checkpoint, copies)

    def wait(self) -> None:
        """Until every copy is whole."""
        while self._under_way:
            self._under_way.pop()[0].synchronize()


def _tensors(checkpoint: Checkpoint) -> list[Tensor]:
    states = checkpoint.state.layers.values()
    return [*(tensor for state in states for tensor in state), checkpoint.last_hidden]


def _with_tensors(checkpoint: Checkpoint, tensors: Sequence[Tensor]) -> Checkpoint:
    """The same layers made of other tensors, in the order of `_tensors`."""
    left = iter(tensors)
    layers = {
        layer: tuple(next(left) for _ in state) for layer, state in checkpoint.state.layers.items()
    }
    return Checkpoint(RecurrentState(layers), next(left))
