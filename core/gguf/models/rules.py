"""Rules that make recipes. A table maps the end of a published name to a rule, or to several, of
which the first applies whose tensors the file has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from core.api.errors import WrongShapeError
from core.gguf.models.recipe import (
    Indices,
    Order,
    Recipe,
    alternating,
    log_of_negative,
    one_less,
    plain,
    shaped,
    swapped,
)
from core.gguf.models.settings import Config, Settings

Step = Callable[[Settings, Recipe], Recipe]


@dataclass(frozen=True, slots=True)
class Rule:
    """The first of the tensors `names`, if the file has all of them; or two of one type, joined
    along axis `joined`. `scaled`: each is multiplied by its `.scale` tensor, if there is one."""

    names: tuple[str, ...]
    step: Step | None = None
    joined: int | None = None
    new_axis: bool = False
    scaled: bool = True


Table = Mapping[str, Rule | tuple[Rule, ...]]
Rules = dict[str, Rule | tuple[Rule, ...]]


@dataclass(frozen=True, slots=True)
class Architecture:
    """Files of one `general.architecture`: `config` makes config.json, `scope` is the text stack's
    in published names; tables are of the `stack`, of each `layer`, and of each layer of an MTP
    `head`."""

    config: Callable[[Settings], Config]
    scope: str
    stack: Table
    layer: Table
    head: Table = field(default_factory=dict)


def rule(*names: str, step: Step | None = None) -> Rule:
    return Rule(names, step)


def joined(first: str, second: str) -> Rule:
    return Rule((first, second), joined=1)


def modules(names: Mapping[str, str], step: Step | None = None) -> dict[str, Rule]:
    return {
        f"{published}.{part}": Rule((f"{ours}.{part}",), step)
        for published, ours in names.items()
        for part in ("weight", "bias")
    }


def experts(scope: str) -> Rules:
    """Gates and what they open are one stack if their types allow it."""
    both = joined("ffn_gate_exps.weight", "ffn_up_exps.weight")
    apart = {
        f"{scope}.{each}_proj": rule(f"ffn_{each}_exps.weight") for each in ("gate", "up", "down")
    }
    return {f"{scope}.gate_up_proj": (rule("ffn_gate_up_exps.weight"), both), **apart}


class Recipes(dict[str, Recipe]):
    """`missing` names the GGUF tensor that each of the others needs."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self.missing: dict[str, str] = {}

    def add(self, published: str, ours: str, table: Table) -> None:
        """Apply a table, with these prefixes before published names and the file's."""
        for end, rules in table.items():
            choices = rules if isinstance(rules, tuple) else (rules,)
            for each in choices:
                names = [f"{ours}{name}" for name in each.names]
                lacking = [name for name in names if name not in self._settings.tensors]
                if not lacking and not self._must_stay_apart(each, names):
                    self[f"{published}{end}"] = self._fitting(each, names)
                    break
                self.missing[f"{published}{end}"] = next(iter(lacking), names[0])

    def _must_stay_apart(self, rule: Rule, names: list[str]) -> bool:
        """True if rows of both tensors would be of different types: none could stay blocks."""
        types = {self._settings.tensors[name].type for name in names}
        return rule.joined is not None and not rule.new_axis and len(types) > 1

    def _fitting(self, rule: Rule, names: list[str]) -> Recipe:
        """Raises WrongShapeError if the tensors have too few axes for the rule, or empty ones."""
        try:
            return self._recipe(rule, names)
        except (IndexError, ZeroDivisionError):
            shape = list(self._settings.tensors[names[0]].shape)
            raise WrongShapeError(f"{names[0]} can't have the shape {shape}.") from None

    def _recipe(self, rule: Rule, names: list[str]) -> Recipe:
        settings = self._settings
        parts = [settings.tensors[name] for name in names]
        recipe = plain(parts[0])
        if rule.joined is not None:
            recipe = alternating(parts[0], parts[1], rule.joined, new=rule.new_axis)
        recipe = rule.step(settings, recipe) if rule.step is not None else recipe
        if not rule.scaled:
            return recipe
        ends = (part.name.removesuffix(".weight") for part in recipe.parts)
        return replace(recipe, scales=tuple(settings.tensors.get(f"{end}.scale") for end in ends))


# ------------------------------------------------------------------ steps


def zero_centred(settings: Settings, recipe: Recipe) -> Recipe:
    return replace(recipe, values=one_less)


def decay(settings: Settings, recipe: Recipe) -> Recipe:
    return replace(recipe, values=log_of_negative)


def flat(settings: Settings, recipe: Recipe) -> Recipe:
    return shaped(recipe, -1)


def flat_decay(settings: Settings, recipe: Recipe) -> Recipe:
    return decay(settings, flat(settings, recipe))


def one_row(settings: Settings, recipe: Recipe) -> Recipe:
    return shaped(recipe, 1, -1)


def taps(settings: Settings, recipe: Recipe) -> Recipe:
    return shaped(recipe, -1, 1, recipe.width)


def rotated(settings: Settings, recipe: Recipe) -> Recipe:
    """Rows of queries or keys, whose pairs of a rotation are neighbours in the file."""
    half = settings.head_dim // 2

    def order(count: int) -> Indices:
        return np.arange(count).reshape(-1, half, 2).swapaxes(1, 2).ravel()

    return _reordered(recipe, order)


def by_key_head(keeping: int = 0) -> Step:
    """Value heads grouped by key head, which the file has side by side for each repetition. The
    first `keeping` blocks of queries or keys stay in place."""

    def step(settings: Settings, recipe: Recipe) -> Recipe:
        return _reordered(recipe, _value_heads(settings, keeping))

    return step


def inputs_by_key_head(settings: Settings, recipe: Recipe) -> Recipe:
    return replace(recipe, columns=_value_heads(settings, 0))


def taps_by_key_head(settings: Settings, recipe: Recipe) -> Recipe:
    return by_key_head(keeping=2)(settings, taps(settings, recipe))


def decay_by_key_head(settings: Settings, recipe: Recipe) -> Recipe:
    return by_key_head()(settings, decay(settings, recipe))


def _value_heads(settings: Settings, keeping: int) -> Order:
    key_heads = settings.count("ssm.group_count")
    repeats = settings.count("ssm.time_step_rank") // max(1, key_heads)
    kept = keeping * key_heads * settings.count("ssm.state_size")

    def order(count: int) -> Indices:
        values = kept + swapped(repeats, key_heads, count - kept)
        return np.concatenate([np.arange(kept), values])

    return order


def _reordered(recipe: Recipe, order: Order) -> Recipe:
    if len(recipe.shape) > 1:
        return replace(recipe, rows=order)
    return replace(recipe, columns=order)


def _of_all(part: int, gated: bool, step: Step | None) -> Step:
    """`part` is queries, keys or values of one matrix or bias of them all."""

    def share(settings: Settings, recipe: Recipe) -> Recipe:
        (whole,) = recipe.parts
        output = settings.tensors[f"{whole.name.partition('attn_qkv')[0]}attn_output.weight"]
        queries = output.shape[-1] * (2 if gated else 1)
        others = (whole.shape[0] - queries) // 2
        if others <= 0 or queries + 2 * others != whole.shape[0]:
            raise WrongShapeError(f"{whole.name} can't be split into queries, keys and values.")
        count, first = (others if part else queries), part and queries + (part - 1) * others
        own = replace(recipe, shape=(count, *whole.shape[1:]))
        own = own if step is None else step(settings, own)
        moved = own.rows or own.columns or np.arange
        # A bias is read as rows of one number.
        width = whole.shape[1] if len(whole.shape) > 1 else 1
        return replace(own, rows=lambda _: first + moved(count), columns=None, row_width=width)

    return share


# ------------------------------------------------------------------ tables of most families


def stack(norm: str = "norm", step: Step | None = None) -> Rules:
    return {
        "embed_tokens.weight": rule("token_embd.weight"),
        f"{norm}.weight": rule("output_norm.weight", step=step),
    }


def mlp(scope: str, ending: str = "") -> dict[str, Rule]:
    parts = ("gate", "up", "down")
    return modules({f"{scope}.{each}_proj": f"ffn_{each}{ending}" for each in parts})


def attention(step: Step | None = None, *, gated: bool = False) -> Rules:
    """Projections, of which those to queries, keys and values may be one tensor (`attn_qkv`).
    `step` is of queries and keys; `gated`: each head's query has its gate below it."""
    rules: Rules = {}
    for number, each in enumerate("qkv"):
        own = step if each in "qk" else None
        fused = _of_all(number, gated, own)
        for part in ("weight", "bias"):
            rules[f"self_attn.{each}_proj.{part}"] = (
                rule(f"attn_qkv.{part}", "attn_output.weight", step=fused),
                rule(f"attn_{each}.{part}", step=own),
            )
    return rules | modules({"self_attn.o_proj": "attn_output"})


ATTENTION, ROTATED_ATTENTION = attention(), attention(rotated)
QK_NORMS = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
STACK, MLP = stack(), mlp("mlp")
NORMS = {
    "input_layernorm.weight": rule("attn_norm.weight"),
    "post_attention_layernorm.weight": rule("ffn_norm.weight"),
}
