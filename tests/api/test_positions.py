"""The two indices never mix at run time either; the type checker's side is test_index_types."""

import dataclasses
import operator

import pytest

from core.api.positions import PositionIndex, TokenIndex


@pytest.mark.parametrize("index", [TokenIndex, PositionIndex])
def test_arithmetic_stays_in_its_kind(index: type[TokenIndex] | type[PositionIndex]) -> None:
    assert index(3) + 2 == index(5)
    assert index(5) - index(3) == 2  # type: ignore[operator]
    assert index(3) < index(4)  # type: ignore[operator]
    assert int(index(7)) == 7


@pytest.mark.parametrize("index", [TokenIndex, PositionIndex])
def test_negative_is_refused(index: type[TokenIndex] | type[PositionIndex]) -> None:
    with pytest.raises(ValueError, match="negative"):
        index(-1)
    with pytest.raises(ValueError, match="negative"):
        index(1) + -2


def test_mixing_is_a_type_error() -> None:
    token, position = TokenIndex(1), PositionIndex(1)
    assert token != position  # type: ignore[comparison-overlap]
    assert len({token, position}) == 2
    for mix in (operator.lt, operator.le, operator.gt, operator.ge, operator.sub, operator.add):
        for one, other in ((token, position), (position, token)):
            with pytest.raises(TypeError):
                mix(one, other)
    with pytest.raises(TypeError):
        token + token  # type: ignore[operator]


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TokenIndex(1).value = 2  # type: ignore[misc]
