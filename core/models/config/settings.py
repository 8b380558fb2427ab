"""Reading a part of config.json into a checked type; what the keys mean is left to the families."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.api.errors import BrokenConfigError

# No released model comes near these; they keep a nonsense value from planning a billion layers.
Count = Annotated[int, Field(ge=1, le=2**24)]
Depth = Annotated[int, Field(ge=1, le=1024)]
# Each is matrices of its own in memory; released models have at most 2,048 a layer.
Experts = Annotated[int, Field(ge=0, le=2**12)]
# Of a causal convolution: one is none.
Taps = Annotated[int, Field(ge=2, le=64)]
# Well within float32, which everything of the kind becomes.
_LARGEST = 1e30
# Each is looked at, and a fault is found in each: four for every layer that there may be.
_MOST_ITEMS = 4096
_MOST_FAULTS = 5
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
        for key in cls.model_fields:
            value = values.get(key)
            if isinstance(value, list | tuple) and len(value) > _MOST_ITEMS:
                raise ValueError(f'"{key}" lists {len(value):,} items, more than any model has')
        return {key: value for key, value in values.items() if value is not None}


Parsed = TypeVar("Parsed", bound=Settings)


def parse_settings(kind: type[Parsed], values: Mapping[str, Any]) -> Parsed:
    """`values` as a `kind`; raises BrokenConfigError that names the first keys at fault."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        listed = error.errors(include_url=False, include_context=False, include_input=False)
        faults = [_fault(item["loc"], item["msg"]) for item in listed[:_MOST_FAULTS]]
        if len(listed) > _MOST_FAULTS:
            faults.append(f"and {len(listed) - _MOST_FAULTS:,} more")
        # Not raised from the other, which would keep all of them alive.
        raise BrokenConfigError(
            f"config.json does not describe a model: {'; '.join(faults)}."
        ) from None


def _fault(location: tuple[int | str, ...], message: str) -> str:
    key = ".".join(str(part) for part in location)
    text = message.removeprefix("Value error, ").rstrip(".")
    return f'"{key}": {text}' if key else text
