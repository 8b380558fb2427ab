"""The frozen app answers as its sources do, to the bit: every family, every precision, pictures.

    python -m pytest packaging/installers/test_frozen.py

Run by `make test-installer` on the folder that build.py left; it needs the test extras.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from PIL import Image

from core.client.codec import Fields
from core.client.programs import PROGRAMS, ROOT, clean_environment, program
from core.helper import process
from core.loading.precision import PRECISIONS
from core.loading.registry import FAMILIES
from tests.documents import docx, paragraph, pdf, xlsx
from tests.downloads.test_download import demo_downloaded
from tests.gguf.conftest import ConvertedOf, converted, converter
from tests.promises.fixtures import MODELS, PURE, RECURRENT, TILED, folder_of
from tests.promises.pictures import SIZES, draw
from tests.vision.pictures import HEIC

__all__ = ["converted", "converter", "folder_of"]

BUNDLE = ROOT / "build" / "installers" / "bundle" / "waymark"
ENGINE = BUNDLE / "waymark-engine"
DEMO = ROOT / "resources" / "models" / "demo"
SAMPLE = ROOT / "resources" / "samples" / "three-shapes.png"
CEILING_BYTES = 650_000_000
# What is measured or drawn, budgets, which go by free memory, and drafts, which go by what steps
# take.
CHANGING = ("_s", "bytes", "seed", "draft")


def replayed(command: list[str], data: Path, *options: object) -> list[dict[str, Any]]:
    environment = {**clean_environment(), "XDG_CACHE_HOME": str(data / "cache")}
    done = subprocess.run(
        [*command, *map(str, options)],
        env=environment,
        cwd=data,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        {name: value for name, value in line.items() if not name.endswith(CHANGING)}
        for line in lines
    ]


def same_answers(data: Path, model: Path, steps: list[dict[str, Any]], precision: str) -> None:
    script = data / "script.json"
    script.write_text(json.dumps({"sampling": {"temperature": 0, "max_tokens": 8}, "steps": steps}))
    options = (script, "--model", model, "--device", "cpu", "--dtype", precision)
    frozen = replayed([str(ENGINE), "core.replay"], data, *options)
    assert frozen == replayed(program("core.replay"), data, *options)
    assert [line["reply_ids"] for line in frozen if line["op"] == "send"] != []


def turns(picture: Path | None) -> list[dict[str, Any]]:
    """Two turns, a retry and an edit; the first shows a picture if there is one."""
    shown = [{"image": str(picture)}] if picture else []
    return [
        {"op": "send", "chat": "a", "content": [*shown, {"text": "What is this?"}]},
        {"op": "settle", "chat": "a"},
        {"op": "send", "chat": "a", "content": "And what else?"},
        {"op": "regenerate", "chat": "a"},
        {"op": "edit", "chat": "a", "message": 2, "content": "And beside it?"},
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="each system's torch has a size of its own")
def test_the_folder_is_no_larger_than_its_ceiling() -> None:
    files = (path for path in BUNDLE.rglob("*") if path.is_file() and not path.is_symlink())
    assert sum(path.stat().st_size for path in files) <= CEILING_BYTES


def test_every_family_is_among_those_that_are_tried(folder_of: Callable[[str], Path]) -> None:
    tried = {
        json.loads((folder_of(name) / "config.json").read_text("utf-8"))["model_type"]
        for name in (*MODELS, *RECURRENT, *TILED, *PURE)
    }
    modules = {FAMILIES[name].build.__module__ for name in tried}
    assert modules == {family.build.__module__ for family in FAMILIES.values()}


@pytest.mark.parametrize("name", [*MODELS, *RECURRENT, *TILED, *PURE])
def test_a_family_answers_as_its_sources_do(
    tmp_path: Path, folder_of: Callable[[str], Path], name: str
) -> None:
    sees = "vision_config" in json.loads((folder_of(name) / "config.json").read_text("utf-8"))
    picture = tmp_path / "picture.png"
    draw(picture, 1, SIZES["small"])
    same_answers(tmp_path, folder_of(name), turns(picture if sees else None), "float32")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_demo_model_answers_about_a_picture_as_its_sources_do(
    tmp_path: Path, precision: str
) -> None:
    same_answers(tmp_path, DEMO, turns(SAMPLE), precision)


@pytest.mark.parametrize("precision", ["published", "bfloat16"])
def test_a_gguf_file_answers_as_its_sources_do(
    tmp_path: Path, converted: ConvertedOf, precision: str
) -> None:
    picture = tmp_path / "picture.png"
    draw(picture, 1, SIZES["small"])
    same_answers(tmp_path, converted("wide", "MOSTLY_Q8_0").file, turns(picture), precision)


def test_documents_pictures_and_formulas_are_read_as_the_sources_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "a.avif"
    Image.open(SAMPLE).save(saved)
    small = {"width": 32, "height": 32, "resample": 3}
    tasks: list[tuple[str, Fields, bytes]] = [
        ("document.open", {"name": "a.docx"}, docx(paragraph("Word"))),
        ("document.open", {"name": "a.xlsx"}, xlsx([["Total", 12.5]])),
        ("document.open", {"name": "a.html"}, b"<p>Page</p>"),
        ("document.open", {"name": "a.pdf"}, pdf(["Hello"])),
        ("document.pages", {"first": 0, "end": 1}, b""),
        ("document.picture", {"page": 0, "longest": 64}, b""),
        ("picture.open", {"name": "a.heic"}, (HEIC / "plain.heic").read_bytes()),
        ("picture.resize", small, b""),
        ("picture.open", {"name": "a.avif"}, saved.read_bytes()),
        ("picture.resize", small, b""),
        ("formulas.render", {"formulas": [(r"\frac{a}{\sqrt{b}}", True)]}, b""),
    ]

    def results() -> list[tuple[Fields, bytes]]:
        helper = process.Helper(2**30)
        try:
            return [helper.ask(name, {**fields}, data, seconds=60) for name, fields, data in tasks]
        finally:
            helper.close()

    expected = results()
    monkeypatch.setattr(process, "program", lambda *words: [str(ENGINE), *words])
    assert results() == expected


def test_the_server_answers(tmp_path: Path) -> None:
    key = "a-key-of-this-test"
    options = ["--model", str(DEMO), "--port", "0", "--key", key, "--data", str(tmp_path)]
    asked = {"messages": [{"role": "user", "content": "What do you see?"}], "max_tokens": 4}
    command = [str(ENGINE), "core.server", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            address = served.stdout.readline().split()[-1]
            answer = httpx2.post(
                f"{address}/chat/completions",
                headers={"Authorization": f"Bearer {key}"},
                json={"model": "any", **asked},
                timeout=120,
            )
        finally:
            served.terminate()
    assert answer.json()["usage"]["completion_tokens"] == 4


def test_a_model_is_downloaded_and_answers(tmp_path: Path) -> None:
    """From a hub on this computer, by the program that the window would run."""
    model = demo_downloaded([str(ENGINE), "core.downloads"], tmp_path)
    same_answers(tmp_path, model, turns(SAMPLE), "bfloat16")


def test_a_reply_is_held_to_its_form_as_its_sources_hold_it(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"pattern": "^[a-z]$"}}, "required": ["a"]}
    forms = ({"json_schema": schema}, {"choice": ["yes", "no"]}, {"regex": "[0-9]{2}"})
    sends = [{"op": "send", "chat": "a", "content": "Say it.", "format": form} for form in forms]
    same_answers(tmp_path, DEMO, sends, "bfloat16")


def test_kernels_that_came_along_are_used_without_a_compiler(tmp_path: Path) -> None:
    environment = {**clean_environment(), "XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)}
    done = subprocess.run(
        [str(ENGINE), "core.selftest", str(DEMO), "--precision", "int8"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", compiled " in done.stdout
    assert not list(tmp_path.rglob("kernels-*.so"))
    assert list(tmp_path.rglob("tried-*"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_H2_a_frozen_program_runs_nothing_from_the_current_folder_or_what_python_is_told(
    tmp_path: Path, name: str
) -> None:
    note = f"open({str(tmp_path / 'run')!r}, 'a').write(__name__ + '\\n')\n"
    for module in ("json", "struct", "torch", "pydantic", "core", "sitecustomize"):
        (tmp_path / f"{module}.py").write_text(note)
    told = {"PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "json.py")}
    subprocess.run(
        [str(ENGINE), name, *([] if name == "core.worker" else ["--help"])],
        cwd=tmp_path,
        env={**os.environ, **told},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert not (tmp_path / "run").exists()


def test_nothing_but_our_programs_is_run_by_name() -> None:
    for named in ([], ["http.server"], ["-c", "print(1)"], ["-m", "core.replay"]):
        command = [str(ENGINE), *named]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems name libraries otherwise")
def test_a_compiler_or_browser_would_not_load_our_libraries(tmp_path: Path) -> None:
    """Checked by the environment of the engine's child."""
    told = {"LD_LIBRARY_PATH": "/opt/libraries", "CC": str(tmp_path / "cc")}
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\nenv > {tmp_path}/seen\nexit 1\n")
    compiler.chmod(0o700)
    environment = {**clean_environment(), **told, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    subprocess.run(
        [str(ENGINE), "core.selftest", str(DEMO)],
        env=environment,
        capture_output=True,
        timeout=120,
        check=False,
    )
    seen = (tmp_path / "seen").read_text().splitlines()
    assert "LD_LIBRARY_PATH=/opt/libraries" in seen
    assert not [line for line in seen if line.startswith("_PYI_") or str(ENGINE.parent) in line]
