"""Reading a part of config.json into a checked type; what the keys mean is left to the families."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.api.errors import BrokenConfigError

# No released model comes near these; they keep a nonsense value from planning a billion layers.
Count = Annotated[int, Field(ge=1, le=2**24)]
Depth = Annotated[int, Field(ge=1, le=1024)]
# Each would be planned by itself.
Experts = Annotated[int, Field(ge=0, le=2**16)]
# Of a causal convolution: one is none.
Taps = Annotated[int, Field(ge=2, le=64)]
# Well within float32, which everything of the kind becomes.
_LARGEST = 1e30
Positive = Annotated[float, Field(gt=0, le=_LARGEST, allow_inf_nan=False)]
Multiplier = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST, allow_inf_nan=False)]


class Settings(BaseModel):
    """Base of the parts of config.json: numbers are numbers, keys nobody asks for are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {key: value for key, value in values.items() if value is not None}


Parsed = TypeVar("Parsed", bound=Settings)


def parse_settings(kind: type[Parsed], values: Mapping[str, Any]) -> Parsed:
    """`values` as a `kind`; raises BrokenConfigError that names every key at fault."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        faults = "; ".join(_fault(item["loc"], item["msg"]) for item in error.errors()[:5])
        raise BrokenConfigError(f"config.json does not describe a model: {faults}.") from error


def _fault(location: tuple[int | str, ...], message: str) -> str:
    key = ".".join(str(part) for part in location)
    text = message.removeprefix("Value error, ").rstrip(".")
    return f'"{key}": {text}' if key else text
