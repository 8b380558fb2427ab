"""The trace of a step: its calls, recorded once and replayed for later tokens.

Python takes longer to make some hundred calls than many of them take.
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
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's has no types

    @abstractmethod
    def do(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any: ...

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
        """Avoids loading torch's compiler, which takes seconds."""
        return False


class NotCapturableError(Exception):
    """A step does something that can't be replayed."""


class Tracer(Protocol):
    def store(self, new: Tensor, rows: Tensor, base: int | None = None) -> None:
        """Write `new` [n, ..] to `rows` [tokens, ..], starting at the token's index.

        With a `base`, `rows` begin with that token, and with another one in a replay. Attention may
        only read rows stored to, from the first to the last of these.
        """
        ...

    def copy(self, numbers: Tensor, to: Tensor, *, soon: bool) -> None:
        """Copy to a tensor of the same kind, which is read `soon` or perhaps never."""
        ...

    def part(self) -> None: ...


class Trace(Protocol):
    """Reads and writes the tensors it was captured with; their weights must outlive it."""

    def replay(self, token: int, check: Callable[[], None], base: int = 0) -> None:
        """Repeat the step for `token` (from 0) and its successors; `check` is called between parts.
        `base` is the first token of rows stored with one.

        Raises MemoryError. After any error the output tensors are undefined.
        """
        ...


Capture = Callable[[int, Callable[[Tracer], Tensor]], tuple[Trace, Tensor]]
"""`capture(token, step)` computes `step`, whose first token has the number `token`, and keeps it.

Returns what `step` returned beside the trace, which writes there again. Raises
NotCapturableError, with `step` perhaps half done."""
