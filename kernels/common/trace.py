"""The trace of a step: what a model computes for a few tokens, kept so that it can be replayed.

Python takes longer to call some hundred operations than many of them take. All that changes from
one step to the next is numbers in places that stay: so the calls are kept while they are made for
one step, and made again for the others. This says what a backend that can do so offers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

MAKE_ROOM = frozenset(
    {
        torch.ops.aten.empty.memory_format,
        torch.ops.aten.new_empty.default,
        torch.ops.aten.empty_strided.default,
    }
)
"""Operations of torch that compute nothing: new tensors that hold nothing yet."""


class Watch(TorchDispatchMode):
    """Inside, every operation of torch goes through `do`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's has no types

    @abstractmethod
    def do(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What `func` of these arguments gives; may raise."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return self.do(func, args, kwargs or {})

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else torch would load its compiler here, for seconds, to say that it isn't wanted."""
        return False


class NotCapturableError(Exception):
    """A step does something that can't be kept; its name is the message."""


class Tracer(Protocol):
    """What a step has to say while it is captured, beside calling operations."""

    def store(self, new: Tensor, rows: Tensor) -> None:
        """Write `new` [n, ..] to the places in `rows` [tokens, ..] from the token's on.

        Only rows that were stored to, from the first to the last of these, can be attended to.
        """
        ...

    def copy(self, numbers: Tensor, to: Tensor, *, soon: bool) -> None:
        """Write all numbers to a tensor of the same kind, which is read `soon` or perhaps never."""
        ...

    def part(self) -> None:
        """One part of the step ends here."""
        ...


class Trace(Protocol):
    """A step that was captured. Reads and writes the tensors of then; whose weights those are must
    outlive it."""

    def replay(self, token: int, check: Callable[[], None]) -> None:
        """Do it for token number `token`, from 0, and those behind it; `check` is called between
        parts and may raise.

        Raises MemoryError. After either the tensors it writes are of no use.
        """
        ...


Capture = Callable[[int, Callable[[Tracer], Tensor]], tuple[Trace, Tensor]]
"""`capture(token, step)` computes `step`, whose first token has the number `token`, and keeps it.

Returns what `step` returned beside the trace, which writes there again. Raises
NotCapturableError, with `step` perhaps half done."""
