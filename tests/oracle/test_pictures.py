"""Models that see pictures against transformers' own, on tiny random checkpoints in float32.

A row of FAMILIES has what each family's folder is made of, and the prompts it is looked at with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    Gemma4UnifiedForConditionalGeneration,
    MiniCPMV4_7Processor,
    PreTrainedModel,
)
from transformers.models.minicpmv4_6.image_processing_pil_minicpmv4_6 import (
    MiniCPMV4_6ImageProcessorPil,
)

from core.api.prompt import Image, TextRun
from core.engine.debug import check_positions
from core.text.chat_text import ChatText
from core.vision.kinds import open_processor
from core.weights import spec as specs
from core.weights.published.folder import ModelFolder
from kernels.dispatch import backend
from tests.loads import load_model
from tests.oracle import (
    runs,
    tiny_gemma3,
    tiny_gemma4,
    tiny_lfm,
    tiny_lfm2_vl,
    tiny_minicpm_v,
    tiny_nemotron_omni,
)
from tests.oracle.checkpoints import Tiny, token_id, tokenizer, write_folder
from tests.oracle.runs import (
    CPU,
    CUTS,
    TOLERANCE,
    Pair,
    Picture,
    assert_same,
    deviation,
    load,
    make_pair,
    our_logits,
    positions,
    prompt_of,
    rms_ratio,
    text,
)
from tests.oracle.tiny_experts import respell
from tests.oracle.tiny_gemma3 import Square, TinyGemma3, write_gemma3
from tests.oracle.tiny_gemma4 import Pooled, TinyGemma4, write_gemma4
from tests.oracle.tiny_lfm import InLine, TinyLfm3, TinyLfm3Vl, write_lfm3_vl
from tests.oracle.tiny_lfm2_vl import Shaped, TinyLfm2Vl, write_lfm2_vl
from tests.oracle.tiny_minicpm_v import OnCanvas, TinyMiniCpmV, write_minicpm_v
from tests.oracle.tiny_nemotron_omni import TinyNemotronOmni, write_nemotron_omni
from tests.oracle.tiny_qwen3_vl import TinyQwen3VL, write_qwen3_vl
from tests.oracle.tiny_text import TinyLfm2, TinyNemotron
from tests.text.chats import PICTURE, chat, user
from tests.vision.pictures import held, noise

B = torch.bfloat16

# ---------------------------------------------------------------- the families

QWEN3_5 = {
    "hybrid": Tiny(),
    "untied": Tiny(tied=False, seed=1),
    "text-only": Tiny(text_only=True, tied=False, seed=2),
    "text-only-tied": Tiny(text_only=True, seed=3),
    "one-key-head": Tiny(heads=6, kv_heads=1, key_heads=1, value_heads=3, seed=4),
    "no-groups": Tiny(heads=2, kv_heads=2, key_heads=3, value_heads=3, seed=5),
    "wide-keys": Tiny(key_dim=32, value_dim=16, seed=6),
    "full-first": Tiny(layers="FLFL", seed=7),
    "only-linear": Tiny(layers="LLL", seed=8),
    "only-full": Tiny(layers="FF", seed=9),
    "biases": Tiny(attention_bias=True, seed=10),
    "sharded": Tiny(max_shard_size="40KB", tied=False, seed=11),
    "one-head": Tiny(vision_heads=1, vision_hidden=48, vision_positions=16, seed=20),
    "one-position": Tiny(
        vision_heads=3, vision_hidden=24, vision_positions=1, vision_depth=1, seed=21
    ),
    "other-width": Tiny(hidden=48, vision_depth=3, tied=False, seed=22),
}
QWEN3_VL = {
    "deep": TinyQwen3VL(),
    "untied": TinyQwen3VL(tied=False, attention_bias=True, deeper=(0, 1, 2), seed=1),
    # As many as there are text layers, and the last block of the tower among them.
    "one-key-head": TinyQwen3VL(
        layers=2, heads=3, kv_heads=1, head_dim=12, sections=(2, 2, 2), deeper=(1, 2), seed=2
    ),
    "not-deep": TinyQwen3VL(deeper=(), vision_positions=16, seed=3),
    "other-width": TinyQwen3VL(
        hidden=48, vision_hidden=24, vision_heads=3, deeper=(1,), max_shard_size="40KB", seed=4
    ),
    "experts": TinyQwen3VL(experts=8, tied=False, seed=5),
    # A token takes them all, in every second layer; an expert's first matrix is square.
    "all-experts": TinyQwen3VL(hidden=48, experts=3, top_k=3, sparse_step=2, seed=6),
}
LFM2_VL = {
    "plain": TinyLfm2Vl(),
    "untied": TinyLfm2Vl(TinyLfm2("FC", tied=False), projector_norm=False, depth=3, seed=1),
    "other-widths": TinyLfm2Vl(
        TinyLfm2("CF", hidden=48), hidden=36, heads=3, positions=9, projector_bias=False, seed=2
    ),
    "one-position": TinyLfm2Vl(TinyLfm2("CFC", bias=True), positions=1, heads=1, seed=3),
}
LFM3_VL = {
    "plain": TinyLfm3Vl(),
    "untied": TinyLfm3Vl(TinyLfm3("FC", tied=False), tower="FCFC", heads=2, kv_heads=1, seed=1),
    "other-widths": TinyLfm3Vl(
        TinyLfm3("CS", hidden=48), hidden=24, heads=3, kv_heads=3, projector_bias=False, seed=2
    ),
    "large-kernel": TinyLfm3Vl(tower="CC", kernel=5, seed=3),
    "one-patch-kernel": TinyLfm3Vl(tower="CF", kernel=1, seed=4),
}
MINICPM_V = {
    "plain": TinyMiniCpmV(),
    "untied": TinyMiniCpmV(Tiny(layers="FL", tied=False), depth=2, inserted=0, seed=1),
    "last-layer": TinyMiniCpmV(hidden=36, heads=3, depth=2, inserted=1, side=1, seed=2),
}
ON_CANVAS = {
    "plain": TinyMiniCpmV(on_canvas=True, seed=3),
    "untied": TinyMiniCpmV(
        Tiny(layers="FL", tied=False),
        hidden=36,
        heads=3,
        depth=2,
        inserted=0,
        on_canvas=True,
        seed=4,
    ),
}
NEMOTRON_OMNI = {
    "plain": TinyNemotronOmni(),
    "one-head": TinyNemotronOmni(
        TinyNemotron("M*-", seed=1),
        hidden=36,
        heads=1,
        side=3,
        others={"num_cls_tokens": 1, "num_registers": 0, "mlp_ratio": 2.5},
        seed=1,
    ),
    # As those with an MTP head.
    "last-norm": TinyNemotronOmni(
        TinyNemotron(
            "*E",
            others={"num_nextn_predict_layers": 1, "mtp_layers_block_type": ["attention", "moe"]},
        ),
        depth=1,
        seed=2,
    ),
}
GEMMA3 = {
    "vision": TinyGemma3(),
    "text-only": TinyGemma3(text_only=True, seed=1),
    "untied": TinyGemma3(tied=False, seed=2),
    "no-groups": TinyGemma3(heads=2, kv_heads=2, seed=3),
    "plain-rope": TinyGemma3(full_rope={"rope_type": "default", "rope_theta": 1e6}, seed=4),
    "window-of-one": TinyGemma3(window=1, seed=5),
    "window-of-all": TinyGemma3(window=4096, seed=6),
    "sharded": TinyGemma3(max_shard_size="40KB", seed=7),
    "unpooled": TinyGemma3(tokens_per_side=6, window=20, seed=20),
    "one-token": TinyGemma3(tokens_per_side=1, image_size=26, vision_depth=1, seed=21),
    "other-width": TinyGemma3(
        vision_heads=1, vision_hidden=40, tokens_per_side=2, hidden=48, seed=22
    ),
}
GEMMA4 = {
    "vision": TinyGemma4(),
    # As the small releases are: a picture attends as text does, and its tower clips.
    "small": TinyGemma4(
        "SSFSF", both_ways=False, shared=2, per_layer=8, double_wide=True, clipped=True, seed=1
    ),
    "large": TinyGemma4(
        experts=4, top_k=2, keys_as_values=True, full_kv_heads=1, standardize=True, seed=2
    ),
    "one-head": TinyGemma4("SF", vision_heads=1, vision_dim=16, vision_depth=1, seed=3),
    "other-width": TinyGemma4("SFF", hidden=48, pooling=3, patch_size=2, tied=False, seed=4),
}


def mixed(first: Any, second: Any, rest: int) -> list[Any]:
    """Pictures at 13 to 18 and 36 to 39."""
    return [text(13), first, text(17, 1), second, text(rest, 2)]


def three(first: Any, second: Any, third: Any) -> list[Any]:
    return [text(3), first, text(2, 1), second, text(2, 2), third, text(3, 3)]


def squares(tiny: TinyGemma3) -> dict[str, list[Any]]:
    """The window of 8 is smaller than the prompt and than a picture of 9 tokens."""
    one, two = Square.of(tiny, 1), Square.of(tiny, 2)
    return {
        "one": [text(5), one, text(4, 1)],
        "first": [one, text(6, 1)],
        "last": [text(20), two],
        "several": [text(13), one, text(2, 1), two, text(1, 2), one, text(15, 3)],
    }


UNIFIED = {
    "unified": TinyGemma4("SSFSSF", unified=True, keys_as_values=True, full_kv_heads=1, seed=15),
    "unified-causal": TinyGemma4("SFSF", unified=True, both_ways=False, shared=2, seed=6),
    "unified-text": TinyGemma4("SF", unified=True, text_only=True, tied=False, seed=7),
}


def pooled(tiny: TinyGemma4) -> dict[str, list[Any]]:
    """The window of 8 is smaller than a picture of 12 tokens."""

    def picture(rows: int, columns: int, seed: int = 0) -> Pooled:
        side, patch = tiny.pooling, tiny.patch_size
        if tiny.unified:
            side, patch = 1, patch * side
        return Pooled(rows * side, columns * side, seed, patch, side)

    return {
        "one": [text(5), picture(2, 3), text(4, 1)],
        "first": [picture(1, 7, 1), text(6, 1)],
        "last": [text(20), picture(6, 2, 2)],
        "several": [text(13), picture(4, 3, 3), text(2, 1), picture(1, 1, 4), text(25, 2)],
    }


PICTURES = {
    "one": [text(5), Picture(4, 6), text(4, 1)],
    "several": three(Picture(6, 10, 1), Picture(2, 4, 2), Picture(14, 2, 3)),
    "one-token": [text(2), Picture(2, 2, 4), text(1), Picture(4, 2, 5), text(1)],
    "long": [text(2), Picture(18, 22, 6), text(70)],
    "larger-than-table": [text(3), Picture(26, 8, 7), text(2)],
}
# 156 tokens: more than two chunks of 64.
MIXED = mixed(Picture(4, 6), Picture(2, 8, 1), 116)
MIXED_VL = mixed(Picture(4, 6), Picture(2, 8, 1), 62)
SEVERAL_VL = three(Picture(6, 10, 1), Picture(2, 4, 2), Picture(2, 2, 3))
SHAPED = mixed(Shaped(4, 6), Shaped(2, 8, 1), 62)
IN_LINE = mixed(InLine(4, 6), InLine(2, 8, 1), 62)
LINES = three(InLine(6, 10, 1), InLine(2, 4, 2), InLine(2, 2, 3))
SQUARES = mixed(Shaped(4, 8, 0, 4, 4), Shaped(8, 16, 1, 4, 4), 62)
SEVERAL_SQUARES = three(Shaped(12, 8, 1, 4, 4), Shaped(4, 4, 2, 4, 4), Shaped(8, 8, 3, 4, 4))
# A whole, and two by one, one by three and two by three slices.
CANVASES = OnCanvas(30, 60, 1), OnCanvas(75, 50, 2), OnCanvas(30, 200, 3), OnCanvas(90, 140, 4)
SLICED = [
    text(5),
    CANVASES[1],
    CANVASES[1].line_break,
    text(7, 1),
    CANVASES[0],
    text(9, 2),
    CANVASES[3],
    CANVASES[3].line_break,
    CANVASES[3].line_break,
    text(30, 3),
]
SHAPES = three(Shaped(6, 10, 1), Shaped(2, 4, 2), Shaped(2, 2, 3))


@dataclass(frozen=True)
class Row:
    """A family: how a folder is written, what of, and the variants that are looked at closely.

    `pictures` are prompts by name, of which the last is read in two runs and token by token;
    `whole`: no cut may lie inside a picture. `rough` is stored in bfloat16 and loaded by `oracle`.
    """

    write: Callable[[Path, Any], PreTrainedModel]
    variants: Mapping[str, Any]
    close: tuple[str, ...]
    pictures: Mapping[str, list[Any]]
    rough: Any
    oracle: str
    bound: float = 2e-2
    whole: bool = False
    given: Callable[[Any], dict[str, Tensor]] = runs.oracle_inputs
    ours: Callable[..., Tensor] = our_logits
    generating: Mapping[str, Any] = field(default_factory=dict)

    def theirs(self, pair: Pair, pieces: list[Any]) -> Tensor:
        """[tokens, vocabulary] of one forward of the oracle over the whole prompt."""
        given, dtype = self.given(pieces), pair.oracle.dtype
        with torch.inference_mode():
            if isinstance(pair.oracle, Gemma4UnifiedForConditionalGeneration):
                given |= tiny_gemma4.masks(pair.oracle, given)
            given = {
                name: each.to(dtype)
                if isinstance(each, Tensor) and each.is_floating_point()
                else each
                for name, each in given.items()
            }
            logits: Tensor = pair.oracle(**given, use_cache=False).logits[0]
        return logits

    def pieces_of(self, tiny: Any) -> list[list[Any]]:
        """A text, and prompts with pictures that fit a variant."""
        long = [text(150, getattr(tiny, "seed", 0))]
        if getattr(tiny, "text_only", False):
            return [long]
        if isinstance(tiny, TinyGemma3):
            return [long, *squares(tiny).values()]
        if isinstance(tiny, TinyGemma4):
            return [long, *pooled(tiny).values()]
        return [long, *self.pictures.values()]


FAMILIES = {
    "qwen3_5": Row(
        write_folder,
        QWEN3_5,
        ("hybrid",),
        PICTURES | {"mixed": MIXED},
        Tiny(dtype=B, seed=3),
        "Qwen3_5ForConditionalGeneration",
        bound=math.inf,  # a shallower one has a test below
        whole=True,
    ),
    "qwen3_vl": Row(
        write_qwen3_vl,
        QWEN3_VL,
        ("deep", "experts"),
        {"several": SEVERAL_VL, "mixed": MIXED_VL},
        TinyQwen3VL(dtype=B, seed=9),
        "Qwen3VLForConditionalGeneration",
    ),
    "lfm2_vl": Row(
        write_lfm2_vl,
        LFM2_VL,
        ("plain",),
        {"several": SHAPES, "mixed": SHAPED},
        TinyLfm2Vl(dtype=B, seed=9),
        "Lfm2VlForConditionalGeneration",
        given=tiny_lfm2_vl.oracle_inputs,
    ),
    "minicpm_v": Row(
        write_minicpm_v,
        MINICPM_V,
        ("plain",),
        {"several": SEVERAL_SQUARES, "mixed": SQUARES},
        TinyMiniCpmV(dtype=B, seed=9),
        "MiniCPMV4_6ForConditionalGeneration",
        bound=math.inf,  # as of Qwen3.5
        given=tiny_minicpm_v.oracle_inputs,
    ),
    "minicpm_v4_7": Row(
        write_minicpm_v,
        ON_CANVAS,
        ("plain",),
        {"several": three(*CANVASES[:3]), "mixed": SLICED},
        TinyMiniCpmV(on_canvas=True, dtype=B, seed=9),
        "MiniCPMV4_7ForConditionalGeneration",
        bound=math.inf,  # as of Qwen3.5
        given=tiny_minicpm_v.oracle_inputs,
    ),
    "lfm3_vl": Row(
        write_lfm3_vl,
        LFM3_VL,
        ("plain",),
        {"several": LINES, "mixed": IN_LINE},
        TinyLfm3Vl(dtype=B, seed=9),
        "Lfm3VlForConditionalGeneration",
        bound=3e-2,  # the oracle is rougher
        given=tiny_lfm.oracle_inputs,
    ),
    "nemotron_omni": Row(
        write_nemotron_omni,
        NEMOTRON_OMNI,
        ("plain",),
        {"several": SHAPES, "mixed": SHAPED},
        TinyNemotronOmni(dtype=B, seed=9),
        "NemotronH_Omni_Reasoning_V3",
        given=tiny_nemotron_omni.oracle_inputs,
    ),
    "gemma3": Row(
        write_gemma3,
        GEMMA3,
        ("vision",),
        squares(GEMMA3["vision"]),
        TinyGemma3(dtype=B, hidden=48, seed=9),
        "Gemma3ForConditionalGeneration",
        bound=3e-2,
        whole=True,
        given=tiny_gemma3.oracle_inputs,
        ours=tiny_gemma3.our_logits,
    ),
    "gemma4": Row(
        write_gemma4,
        GEMMA4,
        ("vision", "small"),
        pooled(GEMMA4["vision"]),
        TinyGemma4(dtype=B, hidden=48, seed=9),
        "Gemma4ForConditionalGeneration",
        bound=3e-2,
        whole=True,
        given=tiny_gemma4.oracle_inputs,
        ours=tiny_gemma3.our_logits,
    ),
    "gemma4_unified": Row(
        write_gemma4,
        UNIFIED,
        ("unified",),
        pooled(UNIFIED["unified"]),
        TinyGemma4("SSF", unified=True, dtype=B, hidden=48, seed=9),
        "Gemma4UnifiedForConditionalGeneration",
        bound=3e-2,
        whole=True,
        given=tiny_gemma4.oracle_inputs,
        ours=tiny_gemma3.our_logits,
        # With another cache it makes the masks of its forward (see tiny_gemma4.masks).
        generating={"cache_implementation": "static", "disable_compile": True},
    ),
}
EVERY = [(name, variant) for name, row in FAMILIES.items() for variant in row.variants]
CLOSE = [(name, variant) for name, row in FAMILIES.items() for variant in row.close]


@pytest.fixture(scope="module", params=CLOSE, ids="-".join)
def seen(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Row, Pair]:
    name, variant = request.param
    row = FAMILIES[name]
    return row, make_pair(row.write, tmp_path_factory.mktemp(name), row.variants[variant])


def only(name: str, variant: str) -> pytest.MarkDecorator:
    """The pair of one family alone."""
    return pytest.mark.parametrize("seen", [(name, variant)], indirect=True)


# ---------------------------------------------------------------- what all families hold


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_logits_agree(name: str, variant: str, tmp_path: Path) -> None:
    row = FAMILIES[name]
    tiny = row.variants[variant]
    made = make_pair(row.write, tmp_path, tiny)
    if name == "qwen3_vl":
        assert made.model.image_width == tiny.hidden * (1 + len(tiny.deeper))
    for pieces in row.pieces_of(tiny):
        assert_same(row.ours(made.model, pieces), row.theirs(made, pieces))


@pytest.mark.parametrize("pictures", [False, True])
def test_greedy_tokens_are_the_same(seen: tuple[Row, Pair], pictures: bool) -> None:
    row, pair = seen
    pieces = row.pictures["several"] if pictures else [text(40)]
    given = row.given(pieces)
    oracle: Any = pair.oracle
    made = oracle.generate(
        **given,
        **row.generating,
        attention_mask=torch.ones_like(given["input_ids"]),
        max_new_tokens=24,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    length = given["input_ids"].shape[1]
    chosen = made.sequences[0, length:].tolist()
    assert len(chosen) == 24
    if row.ours is our_logits:
        found = runs.greedy(pair.model, pieces, chosen)
    else:
        found = row.ours(pair.model, pieces, forced=chosen[:-1])[length - 1 :]
    assert_same(found, torch.cat(made.logits))


@CUTS
def test_legal_cuts_equal_one_shot(seen: tuple[Row, Pair], cuts: Sequence[int]) -> None:
    """Inside a picture too where it attends as text does."""
    row, pair = seen
    pieces = list(row.pictures.values())[-1]
    expected, places = row.theirs(pair, pieces), set(range(1, prompt_of(pieces).num_tokens))
    for run in prompt_of(pieces).runs if row.whole else ():
        if isinstance(run.content, Image):
            places -= set(range(run.start.token.value + 1, run.end.token.value))
    assert len(places) >= len(expected) - 25 and len(places) < len(expected)
    assert (len(places) < len(expected) - 1) is row.whole
    found = [row.ours(pair.model, pieces, [cut]) for cut in sorted(places.intersection(cuts))]
    assert max(deviation(logits, expected) for logits in found) <= TOLERANCE


def test_token_by_token_equals_one_shot(seen: tuple[Row, Pair]) -> None:
    row, pair = seen
    for pieces in ([text(150)], list(row.pictures.values())[-1]):
        expected = row.theirs(pair, pieces)
        assert_same(row.ours(pair.model, pieces, range(1, len(expected))), expected)


@pytest.mark.parametrize("name", FAMILIES)
def test_bfloat16_is_close_to_float32_and_no_rougher_than_the_oracle(
    name: str, tmp_path: Path
) -> None:
    row = FAMILIES[name]
    made, pieces = make_pair(row.write, tmp_path, row.rough), list(row.pictures.values())[-1]
    if name == "gemma3":
        pieces = [text(13), Square.of(row.rough), text(70, 1)]
    exact = row.ours(made.model, pieces)
    ours = rms_ratio(row.ours(load(tmp_path, B), pieces), exact)
    oracle = getattr(transformers, row.oracle).from_pretrained(tmp_path, dtype=B)
    theirs = rms_ratio(row.theirs(Pair(oracle, made.model), pieces).float(), exact)
    assert ours <= row.bound and ours <= 1.1 * theirs


# ---------------------------------------------------------------- Qwen3.5 and Qwen3-VL


def test_bfloat16_stays_close_to_float32(tmp_path: Path) -> None:
    made = make_pair(write_folder, tmp_path, Tiny(layers="LF", dtype=B, tied=False))
    assert rms_ratio(our_logits(load(tmp_path, B), MIXED), our_logits(made.model, MIXED)) <= 2e-2


@only("qwen3_5", "hybrid")
def test_run_lengths_around_blocks_agree(seen: tuple[Row, Pair]) -> None:
    row, pair = seen
    for count in (1, 2, 3, 4, 63, 64, 65, 128, 129, 1025):
        pieces = [text(count)]
        assert_same(our_logits(pair.model, pieces), row.theirs(pair, pieces))


@pytest.mark.parametrize("seen", [("qwen3_5", "hybrid"), ("qwen3_vl", "deep")], indirect=True)
def test_position_ids_are_equal(seen: tuple[Row, Pair]) -> None:
    row, pair = seen
    oracle: Any = pair.oracle
    for pieces in row.pictures.values():
        given = row.given(pieces)
        given.pop("pixel_values")
        expected, delta = oracle.model.get_rope_index(**given)
        assert torch.equal(positions(pieces), expected[:, 0])
        end = prompt_of(pieces).end
        assert end.position.value - end.token.value == int(delta)


@pytest.mark.parametrize("precision", ["float32", "int4"])
def test_all_ways_to_store_experts_are_one_model(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases have inputs before outputs, what transformers writes has them behind, and quantised
    folders have each expert for itself."""
    monkeypatch.setattr(specs, "SLICE_BYTES", 10_000)  # of a stack some experts at a time
    kernels = backend("torch", torch.float32, integers="int4" if precision == "int4" else None)

    def ours() -> Tensor:
        loaded = load_model(ModelFolder.open(tmp_path), CPU, torch.float32, kernels=kernels)
        return our_logits(loaded.model, SEVERAL_VL)

    made = make_pair(write_qwen3_vl, tmp_path, QWEN3_VL["experts"])
    expected, path = ours(), tmp_path / "model.safetensors"
    tensors = load_file(path)
    shapes = {name: list(each.shape) for name, each in tensors.items() if each.ndim == 3}
    assert [8, 48, 32] in shapes.values() and [8, 32, 24] in shapes.values() and len(shapes) == 6
    transposed = {name: tensors[name].transpose(1, 2).contiguous() for name in shapes}
    save_file(tensors | transposed, path, {"format": "pt"})
    assert torch.equal(ours(), expected)
    if precision == "float32":
        kind = transformers.Qwen3VLMoeForConditionalGeneration
        oracle = Pair(kind.from_pretrained(tmp_path, dtype=torch.float32), made.model)
        assert_same(expected, FAMILIES["qwen3_vl"].theirs(oracle, SEVERAL_VL))
    save_file(tensors, path, {"format": "pt"})
    respell(tmp_path, fused=False)
    assert torch.equal(ours(), expected)


# ---------------------------------------------------------------- LFM2-VL, LFM3-VL and Gemma 3


def test_the_older_spelling_of_the_tower_gives_the_same_bits(tmp_path: Path) -> None:
    write_lfm2_vl(tmp_path, LFM2_VL["plain"])
    expected, file = our_logits(load(tmp_path), SHAPED), tmp_path / "model.safetensors"
    tower, older = "model.vision_tower.", "model.vision_tower.vision_model."
    tensors = load_file(file)
    assert not any(name.startswith(older) for name in tensors)
    save_file({name.replace(tower, older): each for name, each in tensors.items()}, file)
    assert torch.equal(our_logits(load(tmp_path), SHAPED), expected)


def test_transformers_names_of_lfm3_give_the_same_bits(tmp_path: Path) -> None:
    write_lfm3_vl(tmp_path, LFM3_VL["plain"])
    expected, file = our_logits(load(tmp_path), IN_LINE), tmp_path / "model.safetensors"
    newer = {"patchifier": "patch_embed", "_layernorm.": "_norm.", "attn.gate_proj": "attn.g_proj"}
    tensors = {}
    for name, each in load_file(file).items():
        for theirs, ours in newer.items():
            name = name.replace(theirs, ours)
        tensors[name] = each
    assert tensors.keys() != load_file(file).keys()
    save_file(tensors, file)
    assert torch.equal(our_logits(load(tmp_path), IN_LINE), expected)


def test_the_embedding_scale_is_rounded_as_in_training(tmp_path: Path) -> None:
    write_gemma3(tmp_path, TinyGemma3(hidden=48, dtype=B, seed=10))
    model: Any = load(tmp_path, B)
    assert model._multipliers[0] == 6.9375 != 48**0.5
    oracle: Any = transformers.Gemma3ForConditionalGeneration.from_pretrained(tmp_path, dtype=B)
    ids = torch.arange(40)
    assert torch.equal(model.embed(ids), oracle.get_input_embeddings()(ids))


# ---------------------------------------------------------------- MiniCPM-V 4.7


def test_a_chat_on_a_canvas_has_the_reference_s_ids_and_positions(tmp_path: Path) -> None:
    """The line break after a picture is a token of its own, which the picture keeps."""
    tiny = TinyMiniCpmV(on_canvas=True, slice_patches=12, seed=5)
    oracle: Any = write_minicpm_v(tmp_path, tiny)
    chat_text, config = ChatText.open(tmp_path), json.loads((tmp_path / "config.json").read_text())
    processor = open_processor(tmp_path, config, None, chat_text.token_id)
    shown = [noise(90, 140), noise(30, 20, seed=1), noise(130, 40, seed=2)]
    processed = [processor.process(held(each)) for each in shown]
    assert [len(each.grids) for each in processed] == [5, 1, 4]
    asked = user(PICTURE, "What ", PICTURE, " and\n", PICTURE)
    prompt = chat_text.render(chat(asked), [each.image for each in processed], None, 64).prompt
    check_positions(prompt)

    pad, pad_id = "<|image_pad|>", token_id("<|image_pad|>")
    theirs: Any = MiniCPMV4_6ImageProcessorPil(**tiny_minicpm_v.preprocessor(tiny))(
        [numpy.asarray(each) for each in shown],
        input_data_format="channels_last",
        return_tensors="pt",
    )
    reference: Any = MiniCPMV4_7Processor
    tokens = SimpleNamespace(slice_mode=True, image_token=pad, video_token="")
    for kind in ("image", "slice", "image_id"):
        setattr(tokens, f"{kind}_start_token", f"<{kind}>")
        setattr(tokens, f"{kind}_end_token", f"</{kind}>")
    spelled = [
        reference.replace_image_token(tokens, theirs, index, image_token_divisor=16)
        for index in range(len(shown))
    ]
    numbered = reference._prepend_local_ids(tokens, [pad * len(shown)], spelled, pad)
    written = "<|im_start|>user\n{}\nWhat {}\n and\n{}\n<|im_end|>\n<|im_start|>assistant\n"
    expected = tokenizer(*tiny_minicpm_v.CONTROL).encode(written.format(*numbered)).ids
    grids, ours = iter(processed), list[int]()
    for segment in prompt.segments:
        text_ids = isinstance(segment, TextRun) and segment.ids
        ours += text_ids or tiny_minicpm_v.ids_of(next(grids).grids, pad_id)
    assert ours == expected
    ids = torch.tensor([expected])
    places, _ = oracle.model.get_rope_index(ids, (ids == pad_id).int(), theirs["target_sizes"])
    found = torch.cat([torch.tensor(run.position_ids()) for run in prompt.runs], dim=1)
    assert torch.equal(found, places[:, 0])
