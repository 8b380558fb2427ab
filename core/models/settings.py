"""Reading config.json into checked types, and keys that several families share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.api.errors import BrokenConfigError
from core.layers.block import MakeFeedForward
from core.layers.feed_forward import FeedForward, SparseExperts, SwiGLU
from core.weights.plan import Weights
from core.weights.smoothing import InputNorm
from kernels.common.shapes import AttentionShape, ExpertShape, Mamba2Shape, Routing

# No released model comes near these; they keep a nonsense value from planning a billion layers.
Count = Annotated[int, Field(ge=1, le=2**24)]
Index = Annotated[int, Field(ge=0)]
Depth = Annotated[int, Field(ge=1, le=1024)]
# Each is matrices of its own in memory; released models have at most 2,048 a layer.
Experts = Annotated[int, Field(ge=0, le=2**12)]
# Of a causal convolution: with one it would do nothing.
Taps = Annotated[int, Field(ge=2, le=64)]
# Well within float32, which such numbers are converted to.
_SMALLEST, _LARGEST = 1e-30, 1e30
# Every item is validated, and an error is made for every fault: four for each possible layer.
_MOST_ITEMS = 4096
_MOST_FAULTS = 5
Positive = Annotated[float, Field(ge=_SMALLEST, le=_LARGEST, allow_inf_nan=False)]
Multiplier = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST, allow_inf_nan=False)]
# Beyond what float32 holds there is no limit.
Limit = Annotated[
    float, Field(ge=0), AfterValidator(lambda each: each if each < _LARGEST else math.inf)
]


class Settings(BaseModel):
    """Strict types; unknown keys are ignored, null is absent. Defaults are those of transformers.

    Saved contexts' fingerprints have the `repr` of a family's settings: changing names of classes
    and fields, or their order, discards what people have saved.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """`given`, the keys of `values` that are not null, with other spellings replaced and
        computed defaults. May raise ValueError."""
        return given

    @model_validator(mode="before")
    @classmethod
    def _read(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        given = {key: value for key, value in values.items() if value is not None}
        found = cls.respell(given, values)
        for key in cls.model_fields:
            value = found.get(key)
            if isinstance(value, list | tuple) and len(value) > _MOST_ITEMS:
                raise ValueError(f'"{key}" lists {len(value):,} items, more than any model has')
            if isinstance(value, list):
                found[key] = tuple(value)
        return {key: value for key, value in found.items() if value is not None}


Parsed = TypeVar("Parsed", bound=Settings)


def parse_settings(
    kind: type[Parsed], values: Mapping[str, Any], source: str = "config.json"
) -> Parsed:
    """Raises BrokenConfigError that names the first keys at fault."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        listed = error.errors(include_url=False, include_context=False, include_input=False)
        faults = [_fault(item["loc"], item["msg"]) for item in listed[:_MOST_FAULTS]]
        if len(listed) > _MOST_FAULTS:
            faults.append(f"and {len(listed) - _MOST_FAULTS:,} more")
        # Not raised from the other, which would keep all of them alive.
        raise BrokenConfigError(
            f"{source} does not describe a model: {'; '.join(faults)}."
        ) from None


def _fault(location: tuple[int | str, ...], message: str) -> str:
    key = ".".join(str(part) for part in location)
    text = message.removeprefix("Value error, ").rstrip(".")
    return f'"{key}": {text}' if key else text


def is_tied(config: Any, *, usual: bool) -> bool:
    """`tie_word_embeddings` of a model with vision, else of its text stack."""
    given = config.tie_word_embeddings, config.text_config.tie_word_embeddings
    return next((bool(each) for each in given if each is not None), usual)


# ------------------------------------------------------------------ attention


class TextSettings(Settings):
    hidden_size: Count
    num_attention_heads: Count
    num_key_value_heads: Count
    head_dim: Count
    if TYPE_CHECKING:  # every family has them, each at its own place in the order of its fields
        vocab_size: int
        max_position_embeddings: int
        intermediate_size: int

    def check_heads(self, *, rotated: bool = True) -> None:
        """Raises ValueError if heads can't share keys, or can't be `rotated` whole."""
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError('"num_attention_heads" is not a multiple of "num_key_value_heads"')
        if rotated and self.head_dim % 2:
            raise ValueError('"head_dim" is not an even number')

    def attention_shape(self, window: int | None = None) -> AttentionShape:
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        return AttentionShape(heads, kv_heads, self.head_dim, window)


def check_layer_types(types: Sequence[str], num_layers: int) -> None:
    if len(types) != num_layers:
        raise ValueError('"layer_types" does not name "num_hidden_layers" layers')


def head_dim_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The default of "head_dim", where it can be computed."""
    heads, hidden = given.get("num_attention_heads"), given.get("hidden_size")
    if isinstance(hidden, int) and isinstance(heads, int) and heads > 0:
        return {"head_dim": hidden // heads}
    return {}


# ------------------------------------------------------------------ Mamba-2


class Mamba2Settings(Settings):
    mamba_n_heads: Count = 128
    mamba_d_head: Count
    mamba_n_groups: Count = 1
    mamba_d_state: Count = 256
    mamba_d_conv: Taps = 4
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    time_step_limit: tuple[Limit, Limit] = (0.0, math.inf)
    rms_norm_eps: Positive = 1e-5

    def check_mamba(self, width: int) -> None:
        """Raises ValueError if the heads don't add up to `width` or can't share B and C, or if the
        limits exclude everything."""
        if self.mamba_n_heads * self.mamba_d_head != width:
            raise ValueError(f'"mamba_n_heads" x "mamba_d_head" is not {width}, the mixer\'s width')
        if self.mamba_n_heads % self.mamba_n_groups:
            raise ValueError('"mamba_n_heads" is not a multiple of "mamba_n_groups"')
        if not self.time_step_limit[0] <= self.time_step_limit[1]:
            raise ValueError('"time_step_limit" is not a range')

    @property
    def mamba_shape(self) -> Mamba2Shape:
        heads, head_dim = self.mamba_n_heads, self.mamba_d_head
        return Mamba2Shape(
            heads, head_dim, self.mamba_n_groups, self.mamba_d_state, self.mamba_d_conv
        )


def mamba2_spelling(given: Mapping[str, Any], width: Any) -> dict[str, Any]:
    """ "mamba_d_head" may be "auto", `width` divided by the number of heads; infinity has several
    spellings."""
    found: dict[str, Any] = {}
    heads = given.get("mamba_n_heads", 128)
    if given.get("mamba_d_head", "auto") == "auto" and isinstance(width, int):
        if not isinstance(heads, int) or heads < 1 or width % heads:
            raise ValueError(f'"mamba_n_heads" does not divide {width}, the width of all heads')
        found["mamba_d_head"] = width // heads
    limits = given.get("time_step_limit")
    if isinstance(limits, list | tuple):
        found["time_step_limit"] = tuple(map(_number, limits))
    return found


def _number(given: Any) -> Any:
    if isinstance(given, dict) and given.get("__float__") == "Infinity":
        return math.inf
    return given


# ------------------------------------------------------------------ sparse experts


class ExpertSettings(Settings):
    """Qwen's spelling; each family has its own defaults. Layers in `mlp_only_layers`, and all
    but every `decoder_sparse_step`-th, are dense."""

    num_experts: Experts
    num_experts_per_tok: Count
    moe_intermediate_size: Count
    norm_topk_prob: bool = True
    shared_expert_intermediate_size: Annotated[int, Field(ge=0, le=2**24)] = 0
    decoder_sparse_step: Depth = 1
    mlp_only_layers: tuple[Index, ...] = ()

    @classmethod
    def respell(cls, given: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        if "num_experts" not in values and "num_local_experts" in values:
            given["num_experts"] = values["num_local_experts"]
        return super().respell(given, values)

    @model_validator(mode="after")
    def _enough_experts(self) -> ExpertSettings:
        if self.num_experts_per_tok > self.num_experts:
            raise ValueError('"num_experts_per_tok" is more than "num_experts"')
        return self

    def feed_forward(self, width: int, dense: MakeFeedForward) -> MakeFeedForward:
        routing = Routing(self.num_experts_per_tok, self.norm_topk_prob)
        inner, shared = self.moe_intermediate_size, self.shared_expert_intermediate_size
        shape = ExpertShape(width, inner, self.num_experts, routing, bool(shared))

        def make(weights: Weights, layer: int, norm: InputNorm) -> FeedForward:
            if layer in self.mlp_only_layers or (layer + 1) % self.decoder_sparse_step:
                return dense(weights, layer, norm)
            return SparseExperts(weights, width, shape, input_norm=norm, shared=shared)

        return make


def check_routing(routing: Routing, experts: int) -> None:
    """Raises ValueError unless `experts` have equal groups, with enough experts in those chosen."""
    size, rest = divmod(experts, routing.groups)
    if rest or (routing.groups > 1 and size < 2):
        raise ValueError('"n_group" does not divide the experts into groups')
    if routing.open_groups > routing.groups:
        raise ValueError('"topk_group" is more than "n_group"')
    if routing.k > size * routing.open_groups:
        raise ValueError('"num_experts_per_tok" is more than "topk_group" groups have')


def feed_forward_of(config: TextSettings, *, bias: bool = False) -> MakeFeedForward:
    width, inner = config.hidden_size, config.intermediate_size

    def dense(weights: Weights, layer: int, norm: InputNorm) -> FeedForward:
        return SwiGLU(weights, width, inner, bias=bias, input_norm=norm)

    return config.feed_forward(width, dense) if isinstance(config, ExpertSettings) else dense
