"""`python -m tests.bench.reuse`: what servers read again, and how long the first token takes.

The same five conversations go through OpenAI's client to Waymark's server and to llama.cpp's
`llama-server`, over the same file, and to vLLM, where it can be installed, over the folder that the
file was made of. The table goes to standard output. docs/performance.md says how to read it.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
from PIL import Image, ImageDraw
from safetensors.torch import load_file, save_file

from tests.bench.folders import Shape, write_random
from tests.bench.levels import here
from tests.bench.llama.build import Build, usual_folder
from tests.bench.machine import machine
from tests.bench.server_process import KEY, ServerProcess
from tests.remote import vllm

CONTEXT, TOKENS, TURNS, MODEL = 16_384, 24, 6, "any"
SHAPE = Shape(
    layers=8, hidden=512, mlp=1_536, heads=8, kv_heads=2, head_dim=64, linear_heads=4,
    value_heads=4, linear_dim=64, vocabulary=1024, positions=CONTEXT, vision_depth=4,
    vision_hidden=256, vision_heads=4, vision_mlp=512, tied=False,
)  # fmt: skip
_WORD = re.compile("Ġ[a-z]{2,}")
# What a person takes to read a short reply; Waymark prefills the reply meanwhile.
PAUSE_S = 0.5
SYSTEM = {"role": "system", "content": "You describe pictures of shapes and nothing else. " * 40}
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look at one part of the picture.",
        "parameters": {
            "type": "object",
            "properties": {"part": {"type": "string", "enum": ["left", "right"]}},
            "required": ["part"],
        },
    },
}


@dataclass
class Peer:
    """A server, and what the requests of one conversation have cost."""

    name: str
    url: str
    prompt: int = 0
    read: int = 0
    seconds: float = 0.0
    client: openai.OpenAI = field(init=False)

    def __post_init__(self) -> None:
        self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=KEY, max_retries=0)

    def ask(self, messages: list[Any], pause: float = PAUSE_S, **fields: Any) -> Any:
        """The reply as a message; its cost is added."""
        create: Any = self.client.chat.completions.create
        options = {"temperature": 0, "max_tokens": TOKENS, "reasoning_effort": "none", **fields}
        options["stream_options"] = {"include_usage": True}
        options["extra_body"] = {"chat_template_kwargs": {"enable_thinking": False}}
        began, first = time.perf_counter(), 0.0
        text, usage = "", None
        for chunk in create(model=MODEL, messages=messages, stream=True, **options):
            usage = chunk.usage or usage
            for delta in [choice.delta for choice in chunk.choices]:
                if not first and delta.content:
                    first = time.perf_counter() - began
                text += delta.content or ""
        assert usage is not None
        self.seconds += first or time.perf_counter() - began
        self.prompt += usage.prompt_tokens
        details = usage.prompt_tokens_details
        self.read += usage.prompt_tokens - ((details and details.cached_tokens) or 0)
        time.sleep(pause)
        return {"role": "assistant", "content": text}


def question(name: str, turn: int) -> Any:
    words = f"In the {name}, number {turn}: what is left of the large circle, and what is above it?"
    return {"role": "user", "content": words}


def grown(peer: Peer, name: str, turns: int = TURNS) -> list[Any]:
    messages: list[Any] = [SYSTEM]
    for turn in range(turns):
        messages.append(question(name, turn))
        messages.append(peer.ask(messages))
    return messages


def linear(peer: Peer) -> None:
    grown(peer, "linear chat")


def edited(peer: Peer) -> None:
    """A chat whose second question is asked again in other words, and goes on from there."""
    messages = grown(peer, "edited chat")[:3]
    for turn in range(2):
        messages.append(question("edited chat, seen again", turn))
        messages.append(peer.ask(messages))


def swiped(peer: Peer) -> None:
    """Three more replies to the last question, and on from the first one."""
    messages = grown(peer, "chat with swipes", TURNS // 2)
    for seed in range(3):
        peer.ask(messages[:-1], temperature=1, seed=seed)
    messages.append(question("chat with swipes", TURNS))
    peer.ask(messages)


def agent(peer: Peer) -> None:
    """Tools are offered, and a title is asked for after each reply. Random weights call nothing."""
    messages: list[Any] = [SYSTEM]
    for turn in range(TURNS):
        asked = question("work of an agent", turn)
        messages.append(asked)
        reply = peer.ask(messages, tools=[TOOL])
        messages.append(reply)
        title = f"Give this chat a title of three words:\n{asked['content']}\n{reply['content']}"
        peer.ask([{"role": "user", "content": title}], pause=0.0, max_tokens=6)


def pictures(peer: Peer) -> None:
    """A picture at the start, two questions about it, a second one, two more questions."""
    messages: list[Any] = [SYSTEM]
    for turn in range(6):
        asked = question("picture", turn)
        if turn in (0, 3):
            url = {"url": f"data:image/png;base64,{drawn(turn)}"}
            text = {"type": "text", "text": asked["content"]}
            asked["content"] = [{"type": "image_url", "image_url": url}, text]
        messages.append(asked)
        messages.append(peer.ask(messages))


CONVERSATIONS = {
    "linear chat": linear,
    "edit of an early message": edited,
    "swipes": swiped,
    "agent with titles": agent,
    "images": pictures,
}


def drawn(number: int) -> str:
    image = Image.new("RGB", (192, 192), "white")
    corner = 20 + 10 * number
    ImageDraw.Draw(image).ellipse((corner, corner, corner + 80, corner + 80), fill="red")
    data = io.BytesIO()
    image.save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


@contextmanager
def waymark(model: Path, folder: Path) -> Iterator[Peer]:
    command = [sys.executable, "-m", "core.server", "--model", str(model), "--port", "0"]
    command += ["--key", KEY, "--data", str(folder / "data"), "--context", str(CONTEXT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            if "http" not in line:
                raise RuntimeError("Waymark's server did not start")
            yield Peer("Waymark", line.rpartition(" ")[2].strip().removesuffix("/v1"))
        finally:
            server.terminate()


@contextmanager
def llama(program: Path, model: Path, vision: Path, threads: int) -> Iterator[Peer]:
    command = [str(program), "-m", str(model), "--mmproj", str(vision), "--jinja"]
    command += ["--api-key", KEY, "-c", str(CONTEXT), "-t", str(threads)]
    with ServerProcess("llama-server", command, model.with_name("llama-server.log")) as server:
        yield Peer(server.name, server.url)


@contextmanager
def vllm_server(program: Path, model: Path) -> Iterator[Peer]:
    options = ["--served-model-name", MODEL, "--max-model-len", str(CONTEXT)]
    options += ["--prefix-match-unit", "64"]
    options += ["--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder"]
    with vllm.server(program, model, model.with_name("vllm.log"), options) as server:
        yield Peer(server.name, server.url)


def written(build: Build, folder: Path) -> tuple[Path, Path]:
    """Random weights that write words, as a GGUF file, and their vision tower."""
    source = write_random(folder / "model", SHAPE)
    _write_words(source)
    made = (folder / "model.gguf", folder / "mmproj-model.gguf")
    lines = [
        json.dumps({
            "folder": str(source), "target": str(target), "kind": "MOSTLY_BF16",
            "vision": vision, "mtp": False,
        })
        for target, vision in zip(made, (False, True), strict=True)
    ]  # fmt: skip
    subprocess.run(
        [sys.executable, "-m", "tests.gguf.llama_converter", str(build.source)],
        input="\n".join(lines), text=True, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return made


def _write_words(folder: Path) -> None:
    """Let a model write nothing but whole words, and the end of a turn. Any tokenizer gives a text
    of these the ids that were sampled, as with most of what a trained model writes."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    settings = json.loads((folder / "config.json").read_text("utf-8"))["text_config"]
    words = {index for token, index in vocabulary.items() if _WORD.fullmatch(token)}
    tensors = load_file(folder / "model.safetensors")
    head = tensors["lm_head.weight"]
    others = [at for at in range(len(head)) if at not in words | {settings["eos_token_id"]}]
    head[others] = 0
    save_file(tensors, folder / "model.safetensors")


def played(peer: Peer, play: Callable[[Peer], None]) -> tuple[int, int, float]:
    """Tokens of all prompts, those that were read, and seconds to first tokens."""
    peer.prompt, peer.read, peer.seconds = 0, 0, 0.0
    play(peer)
    return peer.prompt, peer.read, peer.seconds


def compare(peers: list[Peer]) -> None:
    """Print the table. The servers take turns, so that all meet the same machine."""
    names = [peer.name for peer in peers]
    print(f"| conversation | prompts | {' read | '.join(names)} read | {' | '.join(names)} |")
    print(f"|---|---:|{'---:|' * 2 * len(peers)}")
    for name, play in CONVERSATIONS.items():
        prompts, reads, seconds = zip(*(played(peer, play) for peer in peers), strict=True)
        cells = [name, f"{prompts[0]:,}", *(f"{read:,}" for read in reads)]
        cells += [f"{each:.2f} s" for each in seconds]
        print(f"| {' | '.join(cells)} |", flush=True)


def say(words: str) -> None:
    print(words, file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.reuse")
    parser.add_argument(
        "--llama-server", type=Path, default=os.environ.get("LLAMA_SERVER"),
        help="the program to compare with (default: built from llama-cpp-python's sources)",
    )  # fmt: skip
    parser.add_argument("--folder", type=Path, default=usual_folder(), help="where it is built")
    options = parser.parse_args()
    threads = os.cpu_count() or 1
    build = Build(options.folder, (here() or (None,))[-1], say)
    build.build(threads)
    program = options.llama_server or build.program("llama-server")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model, vision = written(build, folder)
        with ExitStack() as stack:
            peers = [
                stack.enter_context(waymark(model, folder)),
                stack.enter_context(llama(Path(program), model, vision, threads)),
            ]
            try:
                installed = vllm.environment(vllm.usual_folder(), say)
                peers.append(stack.enter_context(vllm_server(installed, folder / "model")))
            except (vllm.VllmError, RuntimeError) as error:
                say(str(error))
            print(machine())
            compare(peers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
