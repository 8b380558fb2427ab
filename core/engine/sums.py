"""Operations that add up many numbers, where the order can matter: noting them, comparing them.

Knows neither models nor what is proven with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from core.engine.threads import computing_with

ROUNDS = 4  # times that an operation is compared on new numbers
_SUMMANDS = 16  # numbers taken for each given, from which on an operation counts as adding up many
_MOST_DRAWN = 2**22  # numbers of an input that is drawn anew; what is larger is a matrix of weights


class Sum:
    """An operation that adds up many numbers, as it was called once."""

    def __init__(self, operation: Any, inputs: tuple[Any, ...], options: Any) -> None:
        self.first, self._others = inputs[0], inputs[1:]
        self._operation, self._options = operation, options
        self.matrix_size: tuple[int, int] | None = None

    def __call__(self, first: Tensor, *others: Any) -> Tensor:
        """With other inputs; those left out are as they were."""
        inputs = (first, *others, *self._others[len(others) :])
        outputs: Tensor = self._operation(*inputs, **self._options)
        return outputs

    def equal(self, count: int, draw: torch.Generator, check: Callable[[], None]) -> bool:
        """Whether random numbers in place of all inputs but weights give equal bits, time after
        time. The first alone may be one that only lends its shape."""
        if not self.first.is_floating_point():
            return True  # sums of integers are exact
        for _ in range(ROUNDS):
            check()
            numbers = [_drawn_anew(each, draw) for each in (self.first, *self._others)]
            if not equal_on(count, partial(self, *numbers)):
                return False
        return True


def _drawn_anew(each: Any, draw: torch.Generator) -> Any:
    """Random numbers like a tensor of floats, if it is no matrix of weights; else what is given."""
    plain = isinstance(each, Tensor) and each.layout == torch.strided and each.is_floating_point()
    if not plain or each.numel() > _MOST_DRAWN:
        return each
    return torch.empty_like(each).copy_(torch.randn(each.shape, generator=draw))


class NotedSums(TorchFunctionMode):
    """Notes every kind of operation inside that adds up many numbers; attention apart."""

    def __init__(self) -> None:
        super().__init__()
        self.attentions: dict[object, Sum] = {}
        self.others: dict[object, Sum] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        given = func(*args, **kwargs)
        taken = [each for each in args if isinstance(each, Tensor)]
        if func is F.scaled_dot_product_attention:
            kind: object = (args[0].shape, args[0].dtype, str(kwargs))
            self.attentions.setdefault(kind, Sum(func, args, kwargs))
        elif isinstance(given, Tensor) and _adds_up(taken, given):
            kind = (func, str(kwargs), tuple((each.shape, each.dtype) for each in taken))
            noted = self.others.setdefault(kind, Sum(func, args, kwargs))
            noted.matrix_size = _matrix_size(taken, given)
        return given


def _adds_up(taken: list[Tensor], given: Tensor) -> bool:
    """Whether far more numbers are taken than given, and what is given is no view."""
    few = sum(each.numel() for each in taken) > _SUMMANDS * given.numel() > 0
    return few and given.untyped_storage().data_ptr() != taken[0].untyped_storage().data_ptr()


def _matrix_size(taken: list[Tensor], given: Tensor) -> tuple[int, int] | None:
    """Outputs and inputs, where one row of floats goes through a matrix."""
    row = taken[0]
    one_row = row.shape[:-1] == given.shape[:-1] == (1,)
    if len(taken) == 1 or not one_row or not row.is_floating_point():
        return None
    return given.shape[1], row.shape[1]


def equal_on(count: int, compute: Callable[[], Tensor]) -> bool:
    """Whether `count` threads compute the same bits as the present number."""
    expected = compute()
    with computing_with(count):
        found = compute()
    return equal([expected], [found])


def equal(expected: list[Tensor], found: list[Tensor]) -> bool:
    """To the bit: NaN equals itself, and the two zeros differ."""
    return len(expected) == len(found) and all(
        torch.equal(_bits(one), _bits(other)) for one, other in zip(expected, found, strict=True)
    )


def _bits(tensor: Tensor) -> Tensor:
    integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(integers[tensor.dtype.itemsize])
