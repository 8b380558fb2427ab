"""Vision towers: files of the architecture `clip` (mmproj) next to a model's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from core.gguf.models.recipe import Recipe, shaped, swapped
from core.gguf.models.rules import Recipes, Rule, Table, modules
from core.gguf.models.settings import Config, Settings

CLIP = "clip"
PLACES = "v.position_embd.weight"
# The scale in files that don't have it.
_PLAIN_SCALE = {"gemma3": 4, "gemma4v": 3, "gemma4uv": 3, "lfm2": 2, "minicpmv4_6": 4}
_DEEPER = modules({"norm": "norm", "linear_fc1": "fc1", "linear_fc2": "fc2"})


@dataclass(frozen=True, slots=True)
class Projector:
    """How a tower of one `clip.projector_type` joins a text stack.

    `config` makes config.json from that of the text, `processor` preprocessor_config.json. `tables`
    are by scope; `block` is each block's in the scope `blocks`, `deeper` the scope of mergers after
    single blocks (DeepStack). `tokens` are keys of ids in config.json and their spellings.
    `text_scope`: where it differs from models without vision.
    """

    texts: frozenset[str]
    config: Callable[[Settings, Config], Config]
    processor: Callable[[Settings], Config]
    tables: Mapping[str, Table]
    blocks: str
    block: Table
    tokens: Mapping[str, str]
    deeper: str = ""
    text_scope: str | None = None


def sizes(clip: Settings) -> Config:
    return {
        "hidden_size": clip.count("vision.embedding_length"),
        "intermediate_size": clip.count("vision.feed_forward_length"),
        "patch_size": clip.count("vision.patch_size"),
    }


def pixels(clip: Settings) -> Config:
    return {
        "image_mean": clip.numbers("vision.image_mean"),
        "image_std": clip.numbers("vision.image_std"),
    }


def scale(clip: Settings) -> int:
    """Patches along a side of the square that becomes a token."""
    return clip.count("vision.projector.scale_factor", _PLAIN_SCALE[projector_type(clip)])


def projector_type(clip: Settings) -> str:
    return clip.text("projector_type", clip.text("vision.projector_type", ""))


def colours_last(clip: Settings, recipe: Recipe) -> Recipe:
    """[width, colours, y, x], or one of its rows, over a patch's pixels."""
    rows = recipe if len(recipe.shape) == 1 else shaped(recipe, recipe.shape[0], -1)
    return replace(rows, columns=lambda n: swapped(3, n // 3, n))


def tower_recipes(clip: Settings, projector: Projector) -> Recipes:
    recipes = Recipes(clip)
    for scope, table in projector.tables.items():
        recipes.add(scope, "", table)
    block = _in_place(clip, projector.block)
    for index in range(clip.blocks("vision.block_count")):
        recipes.add(f"{projector.blocks}.{index}.", f"v.blk.{index}.", block)
    for place, index in enumerate(deeper_blocks(clip) if projector.deeper else ()):
        recipes.add(f"{projector.deeper}.{place}.", f"v.deepstack.{index}.", _DEEPER)
    return recipes


def deeper_blocks(clip: Settings) -> list[int]:
    blocks = clip.blocks("vision.block_count")
    deeper = clip.each("vision.is_deepstack_layers", blocks, 0)
    return [block for block in range(blocks) if deeper[block]]


def _in_place(clip: Settings, table: Table) -> Table:
    """The first matrix of an MLP is called ffn_down in older files, as its shape shows."""
    down = clip.tensors.get("v.blk.0.ffn_down.weight")
    if down is None or down.shape[-1:] != (clip.count("vision.embedding_length"),):
        return table
    other = {"ffn_up": "ffn_down", "ffn_down": "ffn_up"}

    def swap(name: str) -> str:
        first, _, last = name.partition(".")
        return f"{other.get(first, first)}.{last}"

    return {
        end: replace(each, names=tuple(map(swap, each.names)))
        for end, each in table.items()
        if isinstance(each, Rule)
    }
