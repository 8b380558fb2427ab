"""Models of other programs are found, and each gets its own vision tower."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.gguf.library import (
    FoundModel,
    find_towers,
    found_models,
    is_model,
    models_below,
    ollama_name,
)
from tests.gguf.files import write

BLOBS = {kind: f"sha256:{letter * 64}" for kind, letter in (("model", "a"), ("projector", "b"))}


def make(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write(path)


def ollama(root: Path, name: str, *kinds: str, **changed: str) -> Path:
    digests = BLOBS | changed
    kind = "application/vnd.ollama.image."
    layers = [{"mediaType": kind + each, "digest": digests.get(each)} for each in kinds]
    manifest = root / "manifests" / "registry.ollama.ai" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"layers": layers}))
    return root / "blobs" / BLOBS["model"].replace(":", "-")


def listed(home: Path, **environment: str) -> list[tuple[str, str, str | None]]:
    return [
        (each.program, each.name, next((tower.name for tower in find_towers(each.path)), None))
        for each in found_models(home, environment)
    ]


def test_lm_studio(tmp_path: Path) -> None:
    models = tmp_path / ".lmstudio" / "models"
    for name in ("a/One-GGUF/One-Q4_K_M", "a/Two/Two-00001-of-00002", "a/Two/Two-00002-of-00002",
                 "a/One-GGUF/mtp-One", "a/One-GGUF/imatrix"):  # fmt: skip
        make(models / f"{name}.gguf")
    make(models / "a" / "One-GGUF" / "mmproj-One-f16.gguf")
    (models / "a" / "gone.gguf").symlink_to(tmp_path / "gone")
    (models / "loop").symlink_to(models)
    make(tmp_path / "chosen" / "b" / "Three.GGUF")
    (tmp_path / ".lmstudio" / "settings.json").write_text(
        json.dumps({"downloadsFolder": str(tmp_path / "chosen")})
    )
    make(tmp_path / "moved" / "models" / "Four.gguf")
    (tmp_path / ".lmstudio-home-pointer").write_text(f"{tmp_path / 'moved'}\n")
    assert listed(tmp_path) == [
        ("LM Studio", "a/One-GGUF/One-Q4_K_M", "mmproj-One-f16.gguf"),
        ("LM Studio", "a/Two/Two", None), ("LM Studio", "b/Three", None),
        ("LM Studio", "Four", None),
    ]  # fmt: skip


def test_ollama(tmp_path: Path) -> None:
    root = tmp_path / "elsewhere"
    for blob in BLOBS.values():
        make(root / "blobs" / blob.replace(":", "-"))
    path = ollama(root, "library/seeing/4b", "license", "model", "projector")
    ollama(root, "library/without/latest", "license")
    ollama(root, "library/lost/latest", "model", model=f"sha256:{'c' * 64}")
    ollama(root, "library/hostile/latest", "model", model="sha256:../../../secret")
    (root / "manifests" / "registry.ollama.ai" / "library" / "torn").mkdir()
    (root / "manifests" / "registry.ollama.ai" / "library" / "torn" / "1").write_text("{")
    (found,) = found_models(tmp_path, {"OLLAMA_MODELS": str(root)})
    projector = root / "blobs" / BLOBS["projector"].replace(":", "-")
    assert found == FoundModel(path, "seeing:4b", "Ollama")
    assert models_below(root) == [found]
    assert (ollama_name(path), ollama_name(projector), ollama_name(root)) == ("seeing:4b", "", "")
    assert find_towers(path) == [projector]
    assert find_towers(projector) == []


@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", ""])
def test_the_hugging_face_cache(tmp_path: Path, variable: str) -> None:
    inside = {"HF_HOME": "x/hub", "HF_HUB_CACHE": "x", "XDG_CACHE_HOME": "x/huggingface/hub"}
    hub = tmp_path / inside.get(variable, ".cache/huggingface/hub")
    blob = make(hub / "models--o--N-GGUF" / "blobs" / "ab")
    for revision in "12":
        link = hub / "models--o--N-GGUF" / "snapshots" / revision / "q4" / "N.gguf"
        link.parent.mkdir(parents=True)
        link.symlink_to(blob)
    environment = {variable: str(tmp_path / "x")} if variable else {}
    assert listed(tmp_path, **environment) == [("Hugging Face", "o/N-GGUF/q4/N", None)]


def test_models_below_a_folder(tmp_path: Path) -> None:
    for name in ("One", "mmproj-One", "q8/One-00001-of-00002", "q8/One-00002-of-00002", ".gguf"):
        make(tmp_path / f"{name.removesuffix('.gguf')}.gguf")
    found = [(each.name, each.program) for each in models_below(tmp_path)]
    assert found == [(".gguf", ""), ("One", ""), ("q8/One", "")]
    assert models_below(tmp_path / "gone") == []


def test_names_of_models() -> None:
    assert is_model("One.GGUF") and is_model("One-00001-of-00002.gguf")
    for name in ("One", "One-mmproj.gguf", "mtp-One.gguf", "One-00002-of-00002.gguf"):
        assert not is_model(name)


def test_no_program_at_all(tmp_path: Path) -> None:
    assert listed(tmp_path, HF_HOME="relative", OLLAMA_MODELS=str(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("model", "towers", "wanted"),
    [("One-Q8_0", ["mmproj-F16", "mmproj-BF16", "mmproj-F32"], "mmproj-F32"),
     ("One-Q8_0", ["mmproj-One-Q8_0", "mmproj-One-bf16"], "mmproj-One-bf16"),
     ("One-4B-Q4_K_M", ["mmproj-Two-4B-f16", "mmproj-One-4B-q8_0"], "mmproj-One-4B-q8_0"),
     ("One-4B-Q4_K_M", ["One-4B.mmproj-f16", "One.mmproj-f16"], "One-4B.mmproj-f16"),
     ("UD-Q4_K_XL/One-00001-of-00002", ["mmproj-F16"], "mmproj-F16"),
     ("other/One", ["mmproj-F16"], None), ("One", ["two"], None)],
)  # fmt: skip
def test_the_tower_that_goes_with_a_model(
    tmp_path: Path, model: str, towers: list[str], wanted: str | None
) -> None:
    path = make(tmp_path / f"{model}.gguf")
    for name in towers:
        make(tmp_path / f"{name}.gguf")
    found = find_towers(path)
    assert (found[0].stem if found else None) == wanted
    assert len(found) == (len(towers) if wanted else 0)
