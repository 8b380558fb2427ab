"""Every way to mix the two indices that mypy --strict must refuse; read by tests/test_index_types.py.

A line marked `# E: code` must give exactly this error; every other line must give none. Never run.
"""

from core.api.positions import PositionIndex, TokenIndex
from core.api.prompt import Cut

token = TokenIndex(3)
position = PositionIndex(3)


def wants_token(token: TokenIndex) -> None: ...


def wants_position(position: PositionIndex) -> None: ...


def wants_tokens(tokens: list[TokenIndex]) -> None: ...


# What is allowed: each with its own kind, and plain numbers as distances.
wants_token(token + 1)
wants_position(position + 1)
wants_tokens([token, token + 1])
num_tokens: int = token - TokenIndex(1)
num_positions: int = position - PositionIndex(1)
is_earlier: bool = token < token + 1
index: int = int(token) + int(position)
cut = Cut(token, position)
cut_by_name = Cut(token=token, position=position)

# Passing one where the other is wanted, or a plain number for either.
wants_token(position)  # E: arg-type
wants_position(token)  # E: arg-type
wants_token(3)  # E: arg-type
wants_position(3)  # E: arg-type
wants_token(token - token)  # E: arg-type
wants_position(position - position)  # E: arg-type

# Assigning.
token_from_position: TokenIndex = position  # E: assignment
position_from_token: PositionIndex = token  # E: assignment
token_from_number: TokenIndex = 3  # E: assignment
position_from_number: PositionIndex = 3  # E: assignment
number_from_token: int = token  # E: assignment
number_from_position: int = position  # E: assignment


# Returning.
def next_token() -> TokenIndex:
    return position + 1  # E: return-value


def next_position() -> PositionIndex:
    return token + 1  # E: return-value


def last_token() -> TokenIndex:
    return 3  # E: return-value


# Comparing.
print(token < position)  # E: operator
print(token <= position)  # E: operator
print(position > token)  # E: operator
print(position >= token)  # E: operator
print(token == position)  # E: comparison-overlap
print(position != token)  # E: comparison-overlap
print(token == 3)  # E: comparison-overlap
print(token < 3)  # E: operator
wants_token(max(token, position))  # E: arg-type
print(position in [token])  # E: comparison-overlap

# Subtracting and adding.
print(token - position)  # E: operator
print(position - token)  # E: operator
print(token + position)  # E: operator
print(token + token)  # E: operator
print(position + token)  # E: operator
print(3 - token)  # E: operator

# Building one from the other.
TokenIndex(position)  # E: arg-type
PositionIndex(token)  # E: arg-type

# Changing one: both are frozen.
token.value = 4  # E: misc
position.value = 4  # E: misc
cut.token = token  # E: misc

# Lists and mappings.
wants_tokens([token, position])  # E: list-item
wants_tokens([position])  # E: list-item
positions: list[PositionIndex] = [token]  # E: list-item
by_token: dict[TokenIndex, PositionIndex] = {position: token}  # E: dict-item

# A cut with the two swapped, or with plain numbers.
Cut(position, token)  # E: arg-type, arg-type
Cut(token=position, position=token)  # E: arg-type, arg-type
Cut(token, 3)  # E: arg-type
