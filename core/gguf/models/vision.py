"""Vision towers: files of the architecture `clip` (mmproj) next to a model's.

Names of a picture's tokens, and limits of its size that no key has, are those of the releases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from core.gguf.file import GGUFFile
from core.gguf.models.recipe import Recipe, shaped, swapped
from core.gguf.models.rules import Recipes, Rule, Table, modules, rule, zero_centred
from core.gguf.models.settings import Config, Settings

CLIP = "clip"
# Pixels of a picture in the releases of Qwen3-VL and Qwen3.5.
_QWEN_PIXELS = (65_536, 16_777_216)
_PLAIN_SCALE = {"gemma3": 4, "lfm2": 2}


@dataclass(frozen=True, slots=True)
class Projector:
    """How a tower of one `clip.projector_type` joins a text stack.

    `config` makes config.json with vision from that of the text, `processor`
    preprocessor_config.json. `tables` are by scope; `block` is that of each block in the scope
    `blocks`, `deeper` the scope of mergers after single blocks (DeepStack). `tokens` are keys of
    ids in config.json and their spellings. `text_scope` is the text stack's, where it differs from
    models without vision.
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


def _sizes(clip: Settings) -> Config:
    return {
        "hidden_size": clip.count("vision.embedding_length"),
        "intermediate_size": clip.count("vision.feed_forward_length"),
        "patch_size": clip.count("vision.patch_size"),
    }


def _pixels(clip: Settings) -> Config:
    return {
        "image_mean": clip.numbers("vision.image_mean"),
        "image_std": clip.numbers("vision.image_std"),
    }


def _positions(clip: Settings) -> int:
    return clip.rows("v.position_embd.weight")


def _scale(clip: Settings) -> int:
    """Patches along a side of the square that becomes a token."""
    return clip.count("vision.projector.scale_factor", _PLAIN_SCALE[projector_type(clip)])


# ------------------------------------------------------------------ Qwen3-VL and Qwen3.5


def _qwen(clip: Settings, text: Config) -> Config:
    vision = _sizes(clip) | {
        "depth": clip.count("vision.block_count"),
        "num_heads": clip.count("vision.attention.head_count"),
        "out_hidden_size": clip.count("vision.projection_dim"),
        "spatial_merge_size": clip.count("vision.spatial_merge_size", 2),
        "num_position_embeddings": _positions(clip),
        "deepstack_visual_indexes": _deeper_blocks(clip),
    }
    return text | {"vision_config": vision}


def _qwen_processor(clip: Settings) -> Config:
    least, most = _QWEN_PIXELS
    return _pixels(clip) | {
        "patch_size": clip.count("vision.patch_size"),
        "merge_size": clip.count("vision.spatial_merge_size", 2),
        "min_pixels": clip.count("vision.image_min_pixels", least),
        "max_pixels": clip.count("vision.image_max_pixels", most),
    }


_QWEN = Projector(
    frozenset({"qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe"}),
    _qwen,
    _qwen_processor,
    {
        "model.visual.": {
            "patch_embed.proj.weight": Rule(
                ("v.patch_embd.weight", "v.patch_embd.weight.1"), joined=2, new_axis=True
            ),
            "patch_embed.proj.bias": rule("v.patch_embd.bias"),
            "pos_embed.weight": rule("v.position_embd.weight"),
            **modules({
                "merger.norm": "v.post_ln", "merger.linear_fc1": "mm.0",
                "merger.linear_fc2": "mm.2",
            }),
        }
    },
    "model.visual.blocks",
    modules({
        "norm1": "ln1", "norm2": "ln2", "attn.qkv": "attn_qkv", "attn.proj": "attn_out",
        "mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down",
    }),
    {
        "image_token_id": "<|image_pad|>",
        "video_token_id": "<|video_pad|>",
        "vision_start_token_id": "<|vision_start|>",
        "vision_end_token_id": "<|vision_end|>",
    },
    deeper="model.visual.deepstack_merger_list",
)  # fmt: skip
_DEEPER = modules({"norm": "norm", "linear_fc1": "fc1", "linear_fc2": "fc2"})

# ------------------------------------------------------------------ SigLIP: Gemma 3 and LFM2-VL

_SIGLIP = modules({
    "layer_norm1": "ln1", "layer_norm2": "ln2", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_out",
    "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
})  # fmt: skip
_EMBEDDINGS = {
    "embeddings.patch_embedding.weight": rule("v.patch_embd.weight"),
    "embeddings.patch_embedding.bias": rule("v.patch_embd.bias"),
    "embeddings.position_embedding.weight": rule("v.position_embd.weight"),
    **modules({"post_layernorm": "v.post_ln"}),
}


def _siglip(clip: Settings) -> Config:
    return _sizes(clip) | {
        "num_hidden_layers": clip.count("vision.block_count"),
        "num_attention_heads": clip.count("vision.attention.head_count"),
        "layer_norm_eps": clip.number("vision.attention.layer_norm_epsilon", 1e-6),
    }


def _gemma3(clip: Settings, text: Config) -> Config:
    vision = _siglip(clip) | {"image_size": clip.count("vision.image_size")}
    side = vision["image_size"] // max(1, vision["patch_size"]) // max(1, _scale(clip))
    return {
        "model_type": "gemma3",
        "text_config": text,
        "vision_config": vision,
        "mm_tokens_per_image": side**2,
    }


def _gemma3_processor(clip: Settings) -> Config:
    size = clip.count("vision.image_size")
    return _pixels(clip) | {"size": {"height": size, "width": size}}


def _lfm2(clip: Settings, text: Config) -> Config:
    return {
        "model_type": "lfm2_vl",
        "text_config": text,
        "vision_config": _siglip(clip) | {"num_patches": _positions(clip)},
        "downsample_factor": _scale(clip),
        "projector_hidden_size": clip.rows("mm.1.weight"),
        "projector_bias": "mm.1.bias" in clip.tensors,
        "projector_use_layernorm": "mm.input_norm.weight" in clip.tensors,
        "tie_word_embeddings": text["tie_word_embeddings"],
    }


def _lfm2_processor(clip: Settings) -> Config:
    return _pixels(clip) | {
        "encoder_patch_size": clip.count("vision.patch_size"),
        "downsample_factor": _scale(clip),
    }


def _colours_last(clip: Settings, recipe: Recipe) -> Recipe:
    """[width, colours, y, x] as rows over a patch's pixels."""
    return replace(shaped(recipe, recipe.shape[0], -1), columns=lambda n: swapped(3, n // 3, n))


_GEMMA3 = Projector(
    frozenset({"gemma3_text"}),
    _gemma3,
    _gemma3_processor,
    {
        "vision_tower.vision_model.": _EMBEDDINGS,
        "multi_modal_projector.": {
            "mm_input_projection_weight": rule("mm.input_projection.weight"),
            "mm_soft_emb_norm.weight": rule("mm.soft_emb_norm.weight", step=zero_centred),
        },
    },
    "vision_tower.vision_model.encoder.layers",
    _SIGLIP,
    {
        "boi_token_index": "<start_of_image>",
        "image_token_index": "<image_soft_token>",
        "eoi_token_index": "<end_of_image>",
    },
)
_PATCHES = "embeddings.patch_embedding.weight"
_LFM2 = Projector(
    frozenset({"lfm2"}),
    _lfm2,
    _lfm2_processor,
    {
        "model.vision_tower.": {
            **_EMBEDDINGS,
            _PATCHES: rule("v.patch_embd.weight", step=_colours_last),
        },
        "model.multi_modal_projector.": modules({
            "layer_norm": "mm.input_norm", "linear_1": "mm.1", "linear_2": "mm.2",
        }),
    },
    "model.vision_tower.encoder.layers",
    _SIGLIP,
    {"image_token_id": "<image>"},
    text_scope="model.language_model.",
)  # fmt: skip

# ------------------------------------------------------------------ files

PROJECTORS = {"qwen3vl_merger": _QWEN, "gemma3": _GEMMA3, "lfm2": _LFM2}


def clip_settings(file: GGUFFile, name: str) -> Settings:
    return Settings(name, CLIP, file.metadata, file.tensors)


def projector_type(clip: Settings) -> str:
    return clip.text("projector_type", clip.text("vision.projector_type", ""))


def projector_of(clip: Settings, text: Config) -> Projector | None:
    """The kind of tower in a file, if it is one for this text stack."""
    found = PROJECTORS.get(projector_type(clip))
    if found is None or text["model_type"] not in found.texts:
        return None
    width = text.get("text_config", text)["hidden_size"]
    return found if clip.count("vision.projection_dim", 0) == width else None


def tower_recipes(clip: Settings, projector: Projector) -> Recipes:
    recipes = Recipes(clip)
    for scope, table in projector.tables.items():
        recipes.add(scope, "", table)
    block = _in_place(clip, projector.block)
    for index in range(clip.count("vision.block_count")):
        recipes.add(f"{projector.blocks}.{index}.", f"v.blk.{index}.", block)
    for place, index in enumerate(_deeper_blocks(clip) if projector.deeper else ()):
        recipes.add(f"{projector.deeper}.{place}.", f"v.deepstack.{index}.", _DEEPER)
    return recipes


def _deeper_blocks(clip: Settings) -> list[int]:
    blocks = clip.count("vision.block_count")
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
