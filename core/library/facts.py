"""A model's facts, from headers and small files; weights are sampled, not read."""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path
from typing import Any

import torch

from core.api.errors import BrokenConfigError, InternalError, WaymarkError
from core.client.blobs import open_regular
from core.client.traces import print_trace
from core.layers.memory import checkpoint_bytes
from core.library.machine import Machine
from core.library.messages import ModelFacts
from core.loading.files import open_files
from core.loading.plan import ModelPlan
from core.model_files import TEMPLATE_BYTES, LookingTime, read_object, read_small
from core.weights.container import Container
from core.weights.gguf_container import GGUFContainer
from core.weights.published.folder import ModelFolder

# A file that takes longer holds up the others.
_MOST_S = 20.0
# Pieces of each file that are compared with those of another copy.
_SAMPLES, _SAMPLE_BYTES = 16, 4096
_README_BYTES = 4 * 2**20
_LONGEST_LICENCE = 60
_LICENCE = re.compile(r"^license:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)
# `general.file_type` as llama.cpp numbers it.
_FILE_TYPES = dict(enumerate(
    "F32 F16 Q4_0 Q4_1 - - - Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M "
    "Q6_K IQ2_XXS IQ2_XS Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M IQ2_S IQ2_M IQ4_XS IQ1_M "
    "BF16 - - - TQ1_0 TQ2_0 MXFP4".split()
))  # fmt: skip
_FLOATS = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64"}


def read_facts(path: Path, machine: Machine) -> ModelFacts:
    """An error that loading would raise is the facts' `trouble`."""
    found: WaymarkError
    try:
        return _read(path, machine)
    except WaymarkError as error:
        found = error
    except Exception as error:
        # The process goes on: only so many of its ends are forgiven.
        print_trace(error)
        found = InternalError(f"{type(error).__name__} while its headers were read.")
    return ModelFacts(path=str(path), size=_size_of(path), trouble=found.info())


def _read(path: Path, machine: Machine) -> ModelFacts:
    looking = LookingTime(seconds=_MOST_S)
    with looking:
        container = open_files(path, looking).container
    plan = ModelPlan(container, looking)
    outline = plan.held(torch.bfloat16).outline
    ways, automatic = machine.ways(plan)
    template = _template(container)
    return ModelFacts(
        path=str(path),
        size=container.num_bytes(),
        digest=_digest(container),
        family=str(container.config.get("model_type", "")),
        parameters=outline.num_parameters,
        published=_published(container, plan),
        vision=outline.has_vision,
        audio=any(
            isinstance(container.config.get(key), dict) for key in ("audio_config", "sound_config")
        ),
        thinking=any(switch in template for switch in ("enable_thinking", "reasoning_effort")),
        context=outline.max_positions,
        licence=_licence(container),
        checkpoint_bytes=checkpoint_bytes(outline.layers),
        ways=ways,
        automatic=automatic,
    )


def _files(container: Container) -> list[tuple[Path, int, bytes]]:
    if isinstance(container, GGUFContainer):
        parts = container.model.files
        return [(each.path, each.num_bytes, each.header_digest) for each in parts]
    assert isinstance(container, ModelFolder)
    return [(each.path, each.num_bytes, each.header_digest) for each in container.files]


def _digest(container: Container) -> str:
    """Equal for copies: of headers, sizes, and pieces of each file."""
    found = hashlib.sha256()
    for path, num_bytes, header in _files(container):
        found.update(f"{num_bytes} ".encode() + header)
        with contextlib.suppress(OSError, WaymarkError), open_regular(path) as file:
            for number in range(1, _SAMPLES + 1):
                file.seek(num_bytes * number // (_SAMPLES + 1))
                found.update(file.read(_SAMPLE_BYTES))
    return found.hexdigest()


def _published(container: Container, plan: ModelPlan) -> str:
    if isinstance(container, GGUFContainer):
        number = container.model.metadata.get("general.file_type")
        named = _FILE_TYPES.get(number, "-") if isinstance(number, int) else "-"
        return _FLOATS.get(named, named) if named != "-" else ", ".join(plan.block_types())
    if plan.scheme is not None:
        return plan.scheme.format.title
    sizes: dict[str, int] = {}
    for each in container.tensors.values():
        sizes[each.dtype] = sizes.get(each.dtype, 0) + torch.Size(each.shape).numel()
    most = max(sizes, key=lambda name: sizes[name], default="")
    return _FLOATS.get(most, most)


def _template(container: Container) -> str:
    if isinstance(container, GGUFContainer):
        return str(container.model.metadata.get("tokenizer.chat_template", ""))
    with contextlib.suppress(WaymarkError):
        path = container.path / "chat_template.jinja"
        return read_small(path, TEMPLATE_BYTES, BrokenConfigError).decode("utf-8", "replace")
    with contextlib.suppress(WaymarkError):
        config = read_object(container.path / "tokenizer_config.json", BrokenConfigError)
        return str(config.get("chat_template", ""))
    return ""


def _licence(container: Container) -> str:
    """Named by the file, the model card or the first line of a licence file; '' if none."""
    named: Any = ""
    if isinstance(container, GGUFContainer):
        named = container.model.metadata.get("general.license", "")
    else:
        card = _LICENCE.search(_start_of(container.path / "README.md").partition("\n---")[0])
        lines = _start_of(container.path / "LICENSE").splitlines()
        named = card[1] if card else next((line.strip() for line in lines if line.strip()), "")
    return named if isinstance(named, str) and len(named) <= _LONGEST_LICENCE else ""


def _start_of(path: Path) -> str:
    with contextlib.suppress(WaymarkError):
        return read_small(path, _README_BYTES, BrokenConfigError).decode("utf-8", "replace")
    return ""


def _size_of(path: Path) -> int:
    with contextlib.suppress(OSError):
        if path.is_file():
            return path.stat().st_size
        return sum(each.stat().st_size for each in path.iterdir() if each.is_file())
    return 0
