"""Models in published formats run like plain ones of the same weights; what is wrong is told."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from core.api.errors import (
    BrokenConfigError,
    BrokenWeightsError,
    MissingTensorError,
    UnsupportedQuantisationError,
    WaymarkError,
    WrongShapeError,
)
from core.loading.model import ReadModel
from core.loading.plan import ModelPlan
from core.loading.reading import TensorReader
from core.weights import stream
from core.weights.published.folder import ModelFolder
from kernels.dispatch import backend
from tests.loads import estimate_bytes, load_model
from tests.models.quantised_folders import FORMATS, WEIGHTS, WHOLE, edit_config, write_twins
from tests.oracle.checkpoints import Tiny
from tests.oracle.runs import Picture, Pieces, our_logits, rms_ratio, text
from tests.oracle.tiny_experts import TinyExperts

CPU = torch.device("cpu")
# Layers larger than a block of FP8, and no multiple of it.
TEXT = Tiny(layers="LF", hidden=160, mlp=272, text_only=True, vision=False, tied=False)
WHOLE_GROUPS = Tiny(layers="LF", hidden=128, mlp=256, text_only=True, vision=False, tied=False)
EXPERTS = {
    "qwen3_moe": TinyExperts(
        base=Tiny(layers="FF", hidden=64, head_dim=16, text_only=True, tied=False), inner=32
    ),
    "qwen3_5_moe": TinyExperts(
        "qwen3_5_moe",
        Tiny(layers="LF", hidden=64, vision=False, text_only=True),
        inner=32,
        shared=64,
    ),
    "qwen3_next": TinyExperts(
        "qwen3_next", Tiny(layers="LF", hidden=64, text_only=True, tied=False), inner=32, shared=64
    ),
}
VISION = Tiny(layers="LF", hidden=64, mlp=96, vision_depth=1)
TITLES = sorted(FORMATS)


def load(path: Path, dtype: torch.dtype = torch.float32, **options: Any) -> ReadModel:
    folder = ModelFolder.open(path)
    return load_model(folder, CPU, dtype, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """The small model with a tower in every format, and its plain twin."""
    top = tmp_path_factory.mktemp("published")
    return {title: write_twins(top / title, FORMATS[title], VISION) for title in TITLES}


@pytest.fixture
def copied(made: dict[str, tuple[Path, Path]], tmp_path: Path) -> Callable[[str], Path]:
    """A packed folder that a test may spoil."""

    def copy(title: str) -> Path:
        return Path(shutil.copytree(made[title][0], tmp_path / title))

    return copy


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("title", TITLES)
def test_a_text_model_answers_like_its_plain_twin(
    title: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    packed, plain = (
        load(path, dtype).model for path in write_twins(tmp_path, FORMATS[title], TEXT)
    )
    assert packed.num_parameters == plain.num_parameters
    expected = our_logits(plain, [text(70)], [64])
    assert torch.equal(our_logits(packed, [text(70)], [64]), expected)
    assert expected.std() > 0.1  # the layers in between say something


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("title", TITLES)
def test_a_model_with_a_tower_answers_like_its_plain_twin(
    title: str, dtype: torch.dtype, made: dict[str, tuple[Path, Path]]
) -> None:
    pieces: Pieces = [text(9), Picture(4, 6), text(5, 1)]
    packed, plain = (load(path, dtype).model for path in made[title])
    expected = our_logits(plain, pieces, [9, 15])
    assert torch.equal(our_logits(packed, pieces, [9, 15]), expected)


@pytest.mark.parametrize("family", EXPERTS)
@pytest.mark.parametrize("title", TITLES)
def test_a_model_with_experts_answers_like_its_plain_twin(
    title: str, family: str, tmp_path: Path
) -> None:
    """All experts are packed, and what decides between them is not."""
    folders = write_twins(tmp_path, FORMATS[title], EXPERTS[family])
    packed, plain = (load(path).model for path in folders)
    expected = our_logits(plain, [text(70)], [64])
    assert torch.equal(our_logits(packed, [text(70)], [64]), expected)
    names = ModelFolder.open(folders[0]).files[0].tensors
    marked = [name for name in names if ".experts.7.down_proj." in name]
    assert len(marked) > 1 and any(name.endswith("mlp.gate.weight") for name in names)


@pytest.mark.parametrize("title", ["gptq", "awq", "compressed"])
def test_in_int4_experts_of_four_bits_stay_what_they_are(title: str, tmp_path: Path) -> None:
    """So do the projections of Qwen3-Next, whose rows are put into another order."""
    kernels = backend("cpu", torch.bfloat16, integers="int4")
    packed, plain = write_twins(tmp_path, FORMATS[title], EXPERTS["qwen3_next"])
    exact = our_logits(load(plain).model, [text(70)])
    found, anew = (
        our_logits(load(path, torch.bfloat16, kernels=kernels).model, [text(70)])
        for path in (packed, plain)
    )
    # Of half of the tokens: the others' experts may be near a tie.
    errors = [(each - exact).square().mean(1).median() for each in (found, anew)]
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.parametrize("title", TITLES)
def test_in_int4_integers_of_four_bits_stay_what_they_are(title: str, tmp_path: Path) -> None:
    """Against the weights in full: quantised anew they would be off by half a step of a group."""
    kernels = backend("cpu", torch.bfloat16, integers="int4")
    packed, plain = write_twins(tmp_path, FORMATS[title], WHOLE_GROUPS)
    expected = our_logits(load(plain).model, [text(70)])
    as_stored, anew = (
        rms_ratio(
            our_logits(load(path, torch.bfloat16, kernels=kernels).model, [text(70)]), expected
        )
        for path in (packed, plain)
    )
    if title in ("fp8", *WHOLE):  # floats are quantised anew
        assert as_stored == anew
    else:
        assert as_stored < 0.8 * anew


@pytest.mark.parametrize("title", TITLES)
def test_small_tensors_may_come_after_their_values_or_lie_in_another_file(
    title: str, made: dict[str, tuple[Path, Path]], copied: Callable[[str], Path]
) -> None:
    """Released files are sorted by type; here every second tensor lies in a second file."""
    path = copied(title)
    tensors = load_file(path / WEIGHTS)
    names = sorted(tensors, reverse=True)
    shards = {"b.safetensors": names[::2], "a.safetensors": names[1::2]}
    for shard, inside in shards.items():
        save_file({name: tensors[name] for name in inside}, path / shard)
    weight_map = {name: shard for shard, inside in shards.items() for name in inside}
    (path / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (path / WEIGHTS).unlink()
    expected = our_logits(load(made[title][1]).model, [text(9)])
    assert torch.equal(our_logits(load(path).model, [text(9)]), expected)


def test_a_layer_may_be_plain_though_nothing_says_so(
    made: dict[str, tuple[Path, Path]], copied: Callable[[str], Path]
) -> None:
    """The stored tensors decide, because modules_to_not_convert is often incomplete."""
    path = copied("awq")
    edit_config(path, quantization_config=FORMATS["awq"].config | {"modules_to_not_convert": None})
    expected = our_logits(load(made["awq"][1]).model, [text(9)])
    assert torch.equal(our_logits(load(path).model, [text(9)]), expected)


def test_a_packed_embedding_is_found(
    made: dict[str, tuple[Path, Path]], tmp_path: Path, copied: Callable[[str], Path]
) -> None:
    """How a folder spells its names is seen by the embedding, also where that is packed."""
    path, kind = copied("compressed"), FORMATS["compressed"]
    layer = "model.language_model.embed_tokens"
    tensors = load_file(path / WEIGHTS)
    parts, weights = kind.pack(tensors.pop(f"{layer}.weight").shape, seed=99)
    save_file(tensors | {f"{layer}.{name}": each for name, each in parts.items()}, path / WEIGHTS)
    plain = Path(shutil.copytree(made["compressed"][1], tmp_path / "plain"))
    tensors = load_file(plain / WEIGHTS)
    save_file(tensors | {f"{layer}.weight": weights}, plain / WEIGHTS)
    expected = our_logits(load(plain).model, [text(9)])
    assert torch.equal(our_logits(load(path).model, [text(9)]), expected)


# ------------------------------------------------------------------ memory and fingerprint


@pytest.mark.parametrize("title", TITLES)
def test_the_estimate_counts_loaded_bytes(title: str, made: dict[str, tuple[Path, Path]]) -> None:
    """The bytes of the plain twin, and of one layer at a time while it is read. Floats of 4 bits
    are read some groups at a time."""
    packed, plain = (ModelFolder.open(path) for path in made[title])
    for dtype in (torch.float32, torch.bfloat16):
        read = [ModelPlan(each).held(dtype).bytes_while_read() for each in (packed, plain)]
        beside = read[0] - read[1]
        # The largest packed layer is q_proj, 256 x 64.
        assert beside == 0 if title in WHOLE else 0 < beside <= 4 * 256 * 64
    on_disk = sum(file.num_bytes for file in packed.files)
    assert estimate_bytes(packed, torch.float32) > 1.2 * on_disk


@pytest.mark.parametrize("title", [each for each in TITLES if each not in WHOLE])
def test_a_small_tensor_that_changes_while_loading(
    title: str, copied: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read twice: for its layer, and for the digest. Both must give the same."""
    path = copied(title)
    scales = [
        entry.start
        for name, entry in ModelFolder.open(path).files[0].tensors.items()
        if name.endswith(("scales", "weight_scale", "weight_scale_inv"))
    ]
    look_up, calls = TensorReader._small_parts, []

    def then_change_all(self: TensorReader, layer: Any) -> dict[str, Tensor]:
        parts = look_up(self, layer)
        calls.append(layer)
        with (path / WEIGHTS).open("r+b") as file:
            for start in scales if len(calls) == 1 else ():
                file.seek(start)
                byte = file.read(1)
                file.seek(start)
                file.write(bytes([byte[0] ^ 1]))
        return parts

    monkeypatch.setattr(TensorReader, "_small_parts", then_change_all)
    monkeypatch.setattr(stream, "PIECE_BYTES", 64)
    with pytest.raises(BrokenWeightsError, match="changed while"):
        load(path)


def test_the_fingerprint_covers_the_format(copied: Callable[[str], Path]) -> None:
    """The same bytes read as another format, or as another version of it, are other numbers."""
    path = copied("gptq")
    config = FORMATS["gptq"].config
    first = load(path)
    assert "GptqFormat" in first.config
    edit_config(path, quantization_config=config | {"sym": False})
    second = load(path)
    edit_config(path, quantization_config=config | {"sym": False, "checkpoint_format": "gptq_v2"})
    third = load(path)
    assert len({each.weights_digest for each in (first, second, third)}) == 1
    assert len({each.config for each in (first, second, third)}) == 3
    edit_config(path, quantization_config=config | {"meta": {"quantizer": "another"}})
    assert load(path).config == first.config


# ------------------------------------------------------------------ what is wrong

LAYER = "model.language_model.layers.0.mlp.down_proj"
SMALL = {
    "fp8": ["weight_scale_inv"],
    "gptq": ["qzeros", "scales"],
    "awq": ["qzeros", "scales"],
    "compressed": ["weight_scale", "weight_shape", "weight_zero_point"],
    **{title: ["weight_scale", whole] for title, whole in WHOLE.items()},
}
LARGE = {
    "fp8": "weight", "gptq": "qweight", "awq": "qweight", "compressed": "weight_packed",
    "nvfp4": "weight_packed", "modelopt": "weight",
}  # fmt: skip
PARTS = [(title, part) for title in TITLES for part in [LARGE[title], *SMALL[title]]]


Spoil = Callable[[dict[str, Tensor]], object]
Wrong = tuple[str, Spoil | None, dict[str, Any], type[WaymarkError], tuple[str, ...]]


def without(name: str) -> Spoil:
    return lambda tensors: tensors.pop(name)


def stored_twice(tensors: dict[str, Tensor]) -> None:
    tensors[f"{LAYER}.weight"] = torch.zeros(64, 96)


def set_to(name: str, shape: Sequence[int] | None, dtype: torch.dtype | None = None) -> Spoil:
    """Zeros of another shape or type."""

    def change(tensors: dict[str, Tensor]) -> None:
        old = tensors[name]
        tensors[name] = torch.zeros(shape or old.shape, dtype=dtype or old.dtype)

    return change


def stored_as_float8(title: str) -> Spoil:
    def change(tensors: dict[str, Tensor]) -> None:
        for part in [LARGE[title], *SMALL[title], "g_idx"]:
            tensors.pop(f"{LAYER}.{part}", None)
        tensors[f"{LAYER}.weight"] = torch.zeros(64, 96, dtype=torch.float8_e4m3fn)

    return change


def wrong() -> Iterator[Wrong]:
    """A format, what is done to its tensors and its config, and the error with its words."""
    for title, part in PARTS:
        name = f"{LAYER}.{part}"
        yield title, without(name), {}, MissingTensorError, (name,)
        for shape in ((0,), (0, 0), (1, 1, 1), (64, 97)):
            words = name, str(list(shape))
            yield title, set_to(name, shape), {}, WrongShapeError, words
        int16 = set_to(name, None, torch.int16)
        yield title, int16, {}, BrokenWeightsError, (name, "I16")
    key = "quantization_config"
    for title in TITLES:
        config = FORMATS[title].config
        yield title, None, {key: None}, BrokenConfigError, (key, "packed")
        listed = "ignore" if "ignore" in config else "modules_to_not_convert"
        left_out = config | {listed: [LAYER], "dynamic": {"-:.*down_proj": {}}}  # gptq: patterns
        yield title, None, {key: left_out}, BrokenConfigError, (LAYER,)
        if title in {"gptq", "awq"}:
            for size in (16, 64, -1):
                yield title, None, {key: config | {"group_size": size}}, WrongShapeError, ()
        if title != "fp8":
            yield title, stored_twice, {}, BrokenWeightsError, (LAYER, "F32")
            yield title, stored_as_float8(title), {}, BrokenWeightsError, (LAYER, "F8_E4M3")
    block = FORMATS["fp8"].config | {"weight_block_size": [32, 32]}
    yield "fp8", None, {key: block}, WrongShapeError, ("weight_scale_inv",)
    denied = copy.deepcopy(FORMATS["compressed"].config)
    denied["config_groups"]["group_0"]["weights"]["symmetric"] = True
    yield "compressed", None, {key: denied}, BrokenWeightsError, ("weight_zero_point",)
    unknown = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    yield "awq", None, {key: unknown}, UnsupportedQuantisationError, ("bitsandbytes", "awq")
    for value in ("awq", ["awq"], 4, True):
        yield "awq", None, {key: value}, BrokenConfigError, (key,)


@pytest.mark.parametrize(("title", "change", "config", "kind", "words"), list(wrong()))
def test_what_is_wrong_is_named_before_anything_is_allocated(
    title: str,
    change: Spoil | None,
    config: dict[str, Any],
    kind: type[WaymarkError],
    words: tuple[str, ...],
    copied: Callable[[str], Path],
) -> None:
    path = copied(title)
    if change is not None:
        spoil(path, change)
    if config:
        edit_config(path, **config)
    with pytest.raises(kind) as caught:
        estimate_bytes(ModelFolder.open(path), torch.float32)
    assert type(caught.value) is kind and caught.value.title
    assert all(word in caught.value.message for word in words)


def spoil(path: Path, change: Spoil) -> None:
    tensors = load_file(path / WEIGHTS)
    change(tensors)
    save_file(tensors, path / WEIGHTS)


@pytest.mark.parametrize("said", TITLES)
@pytest.mark.parametrize("title", TITLES)
def test_a_config_that_names_another_format(
    title: str, said: str, copied: Callable[[str], Path]
) -> None:
    path = copied(title)
    edit_config(path, quantization_config=FORMATS[said].config)
    if said == title:
        load(path)
        return
    with pytest.raises((BrokenWeightsError, MissingTensorError, WrongShapeError)) as caught:
        load(path)
    assert "layers." in caught.value.message


def test_groups_out_of_range_are_told_while_loading(copied: Callable[[str], Path]) -> None:
    path = copied("gptq")
    spoil(path, lambda tensors: tensors[f"{LAYER}.g_idx"].fill_(7))
    with pytest.raises(BrokenWeightsError, match="down_proj"):
        load(path)
