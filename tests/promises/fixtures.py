"""Fixtures of the tests that need a real engine: folders and weights made once a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from gguf import GGMLQuantizationType
from safetensors.torch import load_file, save_file

from core.api.chat import ImagePart
from core.api.model_info import HEADROOM_BYTES
from core.engine import loaded
from core.engine.loaded import LoadedModel
from core.loading.model import ReadModel, read_model
from core.loading.plan import HeldPlan
from core.loading.precision import VARIABLE
from kernels.native.library import compiled
from tests.gguf.families import Converter, convert
from tests.gguf.rewriting import Data, mixed, rewrite
from tests.gguf.vocabularies import llama_models
from tests.loading.keeping import WRITTEN_NS, settle
from tests.models.quantised_folders import FORMATS, WEIGHTS, write_twins
from tests.one_thread import one_thread
from tests.oracle.checkpoints import PLAIN_TEMPLATE, SPECIAL, Tiny, token_id, write_folder
from tests.oracle.tiny_experts import TinyExperts, write_experts
from tests.oracle.tiny_gemma3 import TinyGemma3, write_gemma3
from tests.oracle.tiny_gemma4 import TinyGemma4, write_gemma4
from tests.oracle.tiny_kimi import TinyKimi, write_kimi
from tests.oracle.tiny_lfm import (
    TinyLfm2Moe,
    TinyLfm3,
    TinyLfm3Vl,
    write_lfm2_moe,
    write_lfm3,
    write_lfm3_vl,
)
from tests.oracle.tiny_lfm2_vl import TinyLfm2Vl, write_lfm2_vl
from tests.oracle.tiny_minicpm_v import TinyMiniCpmV, write_minicpm_v
from tests.oracle.tiny_mtp import add_head, head_tensors
from tests.oracle.tiny_nemotron_omni import TinyNemotronOmni, write_nemotron_omni
from tests.oracle.tiny_qwen3_vl import TinyQwen3VL, write_qwen3_vl
from tests.oracle.tiny_text import (
    TinyFalconH1,
    TinyGptOss,
    TinyGranite,
    TinyGraniteSwa,
    TinyJamba,
    TinyLfm2,
    TinyLlama,
    TinyMinistral3,
    TinyNemotron,
    TinyOlmoHybrid,
    write_falcon_h1,
    write_gpt_oss,
    write_granite,
    write_granite_swa,
    write_jamba,
    write_lfm2,
    write_llama,
    write_ministral3,
    write_nemotron,
    write_olmo_hybrid,
)
from tests.promises.machine import Machine, load
from tests.promises.pictures import SIZES, draw
from tests.sweeps import thinned

__all__ = ["folder_of", "kept", "loaded_of", "machine", "one_thread", "picture"]

# Types of the fixtures of the same names.
FolderOf = Callable[[str], Path]
LoadedOf = Callable[..., LoadedModel]
PictureOf = Callable[..., ImagePart]


def with_head(path: Path, tiny: Tiny, *, experts: bool = False) -> None:
    """A folder of Qwen3.5, perhaps with sparse experts, and an MTP head in it."""
    if experts:
        write_experts(path, TinyExperts("qwen3_5_moe", tiny, fused=True))
    else:
        write_folder(path, tiny)
    add_head(path, head_tensors(path, tiny))


LONG = 6_000  # positions
TEMPLATES = Path(__file__).parents[1] / "text" / "templates"
# Attention behind recurrence and recurrence behind attention: a mistake in either shows in both.
MODELS = {
    "hybrid": Tiny(layers="LFLF", seed=5),
    "other": Tiny(layers="FL", seed=11),
    "pure": Tiny(layers="FFF", seed=6),
    "text": Tiny(layers="LF", seed=7, text_only=True),
    "thinking": Tiny(
        layers="LF", seed=8, template=(TEMPLATES / "chatml_thinking.jinja").read_text("utf-8")
    ),
    "calling": Tiny(
        layers="LF",
        seed=9,
        text_only=True,
        template=(TEMPLATES / "chatml_tools.jinja").read_text("utf-8"),
    ),
    "keeps_thoughts": Tiny(
        layers="LF", seed=8, template=(TEMPLATES / "chatml_keeps_thoughts.jinja").read_text("utf-8")
    ),
}
assert MODELS["hybrid"].template == PLAIN_TEMPLATE
# Hybrids beside Qwen3.5 dense: other states, or other layers and files around the same ones.
RECURRENT: dict[str, Callable[[Path], object]] = {
    "falcon_h1": lambda path: write_falcon_h1(path, TinyFalconH1(layers=2, seed=12)),
    "lfm2": lambda path: write_lfm2(path, TinyLfm2(layers="CFC", seed=13)),
    "lfm2_moe": lambda path: write_lfm2_moe(path, TinyLfm2Moe("CF", experts=4, top_k=2, seed=16)),
    # Its window is smaller than a run.
    "lfm3": lambda path: write_lfm3(path, TinyLfm3("CSF", seed=17)),
    # Its shared layer is what the smaller releases have without experts.
    "granite": lambda path: write_granite(path, TinyGranite("MF", experts=5, top_k=2, seed=13)),
    # Its one Mamba-1 block has sparse experts.
    "jamba": lambda path: write_jamba(
        path, TinyJamba(layers=2, attention=(2, 0), sparse=(2, 1), experts=4, seed=15)
    ),
    # Beside its experts is what a block without them has.
    "nemotron": lambda path: write_nemotron(path, TinyNemotron("ME*", seed=14)),
    # Its keys and values are one latent row a token.
    "kimi_linear": lambda path: write_kimi(path, TinyKimi("KF", seed=23)),
    # Compiled kernels take values of whole sixteens.
    "olmo_hybrid": lambda path: write_olmo_hybrid(
        path, TinyOlmoHybrid("LF", key_dim=24, value_dim=48, seed=19)
    ),
    # A token has ten experts, so eight tokens have more than the kernels of steps take at once.
    "qwen3_5_moe": lambda path: write_experts(
        path,
        TinyExperts("qwen3_5_moe", Tiny(layers="LF", seed=12), experts=12, top_k=10, fused=True),
    ),
    "qwen3_next": lambda path: write_experts(
        path, TinyExperts("qwen3_next", Tiny(layers="FL", seed=13, text_only=True, tied=False))
    ),
}
# Hybrids with a head that predicts the token after the next.
HEADED: dict[str, Callable[[Path], object]] = {
    "headed": lambda path: with_head(path, Tiny(layers="LFLF", seed=5)),
    "headed_moe": lambda path: with_head(path, Tiny(layers="LF", seed=12), experts=True),
}
# Their pictures are positions in a line or on a canvas, and some families' large ones tiles.
TILED: dict[str, Callable[[Path], object]] = {
    "lfm2_vl": lambda path: write_lfm2_vl(
        path, TinyLfm2Vl(TinyLfm2(layers="CF"), patch=16, depth=1, seed=14)
    ),
    "lfm3_vl": lambda path: write_lfm3_vl(
        path, TinyLfm3Vl(TinyLfm3("CSF", seed=18), tower="CF", seed=18)
    ),
    "minicpm_v": lambda path: write_minicpm_v(
        path,
        TinyMiniCpmV(
            Tiny(layers="LF", seed=21), depth=2, inserted=0, patch=8, slice_patches=32, seed=21
        ),
    ),
    "nemotron_omni": lambda path: write_nemotron_omni(
        path, TinyNemotronOmni(TinyNemotron("M*", seed=24), depth=1, patch=8, seed=24)
    ),
    "minicpm_v4_7": lambda path: write_minicpm_v(
        path,
        TinyMiniCpmV(
            Tiny(layers="LF", seed=22),
            depth=2,
            inserted=0,
            patch=8,
            slice_patches=32,
            on_canvas=True,
            seed=22,
        ),
    ),
}
# Pure transformers: no layer has a state.
PURE: dict[str, Callable[[Path], object]] = {
    "llama": lambda path: write_llama(path, TinyLlama(seed=9)),
    "ministral3": lambda path: write_ministral3(path, TinyMinistral3(layers=2, seed=20)),
    "qwen3": lambda path: write_llama(path, TinyLlama("qwen3", layers=2, seed=10)),
    "qwen3_moe": lambda path: write_experts(
        path, TinyExperts(base=Tiny(layers="FF", seed=14, head_dim=16, text_only=True))
    ),
    # Its pictures enter both layers, and what they are given at first; one of both has experts.
    "qwen3_vl": lambda path: write_qwen3_vl(
        path, TinyQwen3VL(layers=2, experts=4, sparse_step=2, seed=14)
    ),
    # Its window is smaller than a run and than a picture.
    "gemma3": lambda path: write_gemma3(path, TinyGemma3(layers="SFS", window=7, seed=11)),
    # As the small releases are: its last layers have no keys of their own, and each block reads
    # rows of a table; pictures attend as text does.
    "gemma4": lambda path: write_gemma4(
        path,
        TinyGemma4("SFSF", shared=2, per_layer=8, double_wide=True, both_ways=False, clipped=True),
    ),
    # As the large ones are: experts beside dense layers, and keys that are values too.
    "gemma4_large": lambda path: write_gemma4(
        path, TinyGemma4("SSF", experts=4, top_k=2, keys_as_values=True, full_kv_heads=1, seed=1)
    ),
    # Without a tower: the decoder reads the patches of a picture.
    "gemma4_unified": lambda path: write_gemma4(path, TinyGemma4("SF", unified=True, seed=22)),
    "gpt_oss": lambda path: write_gpt_oss(path, TinyGptOss("SF", experts=4, top_k=2, seed=20)),
    "granite_swa": lambda path: write_granite_swa(
        path, TinyGraniteSwa("FS", thetas=(0.0, 1e4), seed=20)
    ),
}
# Their replies are calls with marks around texts, and results are shown in the same turn.
CALLING: dict[str, Callable[[Path], object]] = {
    "calling_gemma4": lambda path: write_gemma4(
        path, TinyGemma4("SF", text="gemma4_tools", text_only=True, seed=23)
    ),
}
# Their contexts are so long that windows slide.
SLIDING: dict[str, Callable[[Path], object]] = {
    # Pictures attend both ways, and a window reaches over several runs.
    "gemma3_long": lambda path: write_gemma3(
        path, TinyGemma3(layers="SFS", window=200, max_positions=LONG, seed=11)
    ),
    # A layer reads the sliding rows of another.
    "gemma4_long": lambda path: write_gemma4(
        path, TinyGemma4("SFSF", window=70, shared=2, per_layer=8, max_positions=LONG)
    ),
    "lfm3_long": lambda path: write_lfm3(
        path, TinyLfm3("CSF", window=40, max_positions=LONG, seed=17)
    ),
    "granite_swa_long": lambda path: write_granite_swa(
        path, TinyGraniteSwa("FS", thetas=(0.0, 1e4), max_positions=LONG, seed=20)
    ),
    "gpt_oss_long": lambda path: write_gpt_oss(
        path, TinyGptOss("SF", experts=4, top_k=2, max_positions=LONG, seed=20)
    ),
}
# GGUF files of random blocks: the types of matrices by parts of their names, and that of others.
BLOCKS: dict[str, tuple[dict[str, str], str]] = {
    "Q4_K": ({}, "Q4_K"),
    "Q6_K": ({}, "Q6_K"),
    "Q8_0": ({}, "Q8_0"),
    # As dynamic mixes are published.
    "UD": (
        {"attn_qkv": "Q5_K", "attn_gate": "IQ4_XS", "ffn_down": "Q6_K", "ffn_gate": "IQ4_NL",
         "ffn_up": "Q3_K", "attn_output": "Q8_0", "token_embd": "Q6_K"},
        "Q4_K",
    ),
}  # fmt: skip
# A folder of a hybrid, whose matrices have scales of their own.
FLOAT4 = "nvfp4"
PUBLISHED = [(name, "published") for name in (*BLOCKS, FLOAT4)]
# The same, mapped from the file of tiles that an earlier load kept.
MAPPED = [(name, "mapped") for name in (*BLOCKS, FLOAT4)]
# Of each kind of layer, template and picture one; the others are tested by `make test-slow`.
FEW = ("hybrid", "thinking", "keeps_thoughts", "falcon_h1", "lfm2", "kimi_linear", "headed",
       "lfm2_vl", "llama", "gemma3", "gemma4")  # fmt: skip

# One for each way to place a picture: on a grid with states and without, in tiles, in slices on a
# canvas, and in a line of a pure transformer.
_PLACING = ("hybrid", "qwen3_vl", "lfm2_vl", "minicpm_v4_7", "gemma4")
# The others differ in where a picture begins and what a model makes of its pixels.
SEEING = thinned((*_PLACING, "lfm3_vl", "minicpm_v", "nemotron_omni"), _PLACING)


def families(*names: str) -> list[object]:
    """Families to test, of which all but FEW are slow."""
    return thinned(names, set(FEW) & set(names))


def write_blocks(folder: Path, name: str) -> Path:
    """A hybrid's file, with its vision tower next to it. It never ends a reply: the rows of control
    tokens are zeros."""
    converter = Converter(llama_models().parent)
    try:
        source = convert(converter, "wide", folder / "made").file
    finally:
        converter.close()
    kinds, usual = BLOCKS[name]
    types = {part: GGMLQuantizationType[kind] for part, kind in kinds.items()}
    drawn = mixed(types, GGMLQuantizationType[usual])

    def change(tensor: str, data: Data) -> tuple[Data, GGMLQuantizationType]:
        made, kind = drawn(tensor, data)
        if tensor == "token_embd.weight":
            made[min(map(token_id, SPECIAL)) :] = 0
        return made, kind

    tower = f"mmproj-{source.name}"
    source.with_name(tower).rename(folder / tower)
    made = rewrite(source, folder / source.name, change)
    for each in (made, folder / tower):
        os.utime(each, ns=(WRITTEN_NS, WRITTEN_NS))
    return made


def write_float4(folder: Path, name: str) -> Path:
    """A hybrid's folder. It never ends a reply, as those of `write_blocks`, nor repeats a few
    tokens as it would with weights as small as FORMATS has."""
    packed, _ = write_twins(folder, FORMATS[name], Tiny(layers="LF", hidden=64, mlp=128, seed=25))
    tensors = load_file(packed / WEIGHTS)
    tensors["model.language_model.embed_tokens.weight"][min(map(token_id, SPECIAL)) :] = 0
    for each in (each for each in tensors if each.endswith("global_scale")):
        tensors[each] /= 3.3
    save_file(tensors, packed / WEIGHTS)
    settle(packed)
    return packed


# Several conftests take these fixtures; all of them share what was made.
_FOLDERS: dict[str, Path] = {}


def _write(folder: Path, name: str) -> Path:
    if name in BLOCKS:
        folder.mkdir()
        return write_blocks(folder, name)
    if name == FLOAT4:
        return write_float4(folder, name)
    if name in MODELS:
        write_folder(folder, MODELS[name])
    else:
        (RECURRENT | HEADED | TILED | PURE | CALLING | SLIDING)[name](folder)
    return folder


@cache
def _load(folder: Path, precision: str, wish: str) -> LoadedModel:
    if precision == "mapped":
        return load_mapped(folder, folder.with_name(f"tiles {wish}"))
    return load(folder, precision=precision)


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of one of MODELS, of the tables after it or of FLOAT4, or a file of BLOCKS."""

    def make(name: str) -> Path:
        if name not in _FOLDERS:
            _FOLDERS[name] = _write(tmp_path_factory.mktemp("models") / name, name)
        return _FOLDERS[name]

    return make


def load_mapped(file: Path, folder: Path) -> LoadedModel:
    """The second load of a model in blocks, as with too little memory for them."""

    def without_room(plan: HeldPlan, *given: Any, **options: Any) -> ReadModel:
        room = plan.num_bytes - plan.mapped_bytes + HEADROOM_BYTES
        return read_model(plan, *given, available=lambda device: room, **options)

    if compiled() is None:
        pytest.skip("there is no C compiler here")
    with patch.object(loaded, "read_model", without_room):
        models = [load(file, precision="published", cache_folder=str(folder)) for _ in range(2)]
    assert [each.info.load.from_disk for each in models] == [False, True]
    return models[1]


@pytest.fixture(scope="session")
def loaded_of(folder_of: Callable[[str], Path]) -> Callable[..., LoadedModel]:
    """One of those, loaded, with the kernels that are wished for when it is asked for."""

    def make(name: str, precision: str = "float32") -> LoadedModel:
        return _load(folder_of(name), precision, os.environ.get(VARIABLE, ""))

    return make


def _named(request: pytest.FixtureRequest, loaded_of: LoadedOf) -> LoadedModel:
    given = getattr(request, "param", "hybrid")
    return loaded_of(*((given,) if isinstance(given, str) else given))


@pytest.fixture
def machine(request: pytest.FixtureRequest, loaded_of: LoadedOf) -> Machine:
    """An engine that has read nothing: with the hybrid model, unless a test names another, perhaps
    with its precision."""
    return Machine(_named(request, loaded_of))


@pytest.fixture
def kept(request: pytest.FixtureRequest, loaded_of: LoadedOf, tmp_path: Path) -> Machine:
    """The same, on a cache folder."""
    return Machine(_named(request, loaded_of), tmp_path / "cache")


@pytest.fixture(scope="session")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ImagePart]:
    """A picture by seed and size: the same arguments give the same file."""
    folder = tmp_path_factory.mktemp("pictures")

    @cache
    def make(seed: int, size: str = "small") -> ImagePart:
        return draw(folder / f"{seed}-{size}.png", seed, SIZES[size])

    return make
