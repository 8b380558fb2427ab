"""The real window with the real worker and a tiny GGUF model of zeros."""

from __future__ import annotations

from pathlib import Path

from tokenizers.pre_tokenizers import ByteLevel

from core.client.client import EngineClient
from desktop.engine.engine_status import Phase
from desktop.store.folders import Folders
from tests.desktop.conftest import OpenApp, until
from tests.desktop.hands import drop, ended, files, press, type_in, words
from tests.gguf.files import Tensor, write

WIDTH, HIDDEN, HEADS = 64, 96, 2
TOKENS = [*sorted(ByteLevel.alphabet()), "<|im_end|>"]
KEYS = {
    "general.architecture": ("text", "llama"),
    "llama.context_length": ("u32", 512),
    "llama.embedding_length": ("u32", WIDTH),
    "llama.block_count": ("u32", 1),
    "llama.feed_forward_length": ("u32", HIDDEN),
    "llama.attention.head_count": ("u32", HEADS),
    "llama.attention.head_count_kv": ("u32", HEADS),
    "llama.attention.layer_norm_rms_epsilon": ("f32", 1e-5),
    "llama.rope.freq_base": ("f32", 10_000.0),
    "tokenizer.ggml.model": ("text", "gpt2"),
    "tokenizer.ggml.pre": ("text", "qwen2"),
    "tokenizer.ggml.tokens": ("[text]", TOKENS),
    "tokenizer.ggml.token_type": ("[i32]", [1] * (len(TOKENS) - 1) + [3]),
    "tokenizer.ggml.merges": ("[text]", []),
    "tokenizer.ggml.eos_token_id": ("u32", len(TOKENS) - 1),
    "tokenizer.chat_template": ("text", "{% for m in messages %}{{ m.content }}{% endfor %}"),
}
SHAPES = {
    "token_embd": (len(TOKENS), WIDTH),
    "output_norm": (WIDTH,),
    "blk.0.attn_norm": (WIDTH,),
    "blk.0.ffn_norm": (WIDTH,),
    "blk.0.attn_q": (WIDTH, WIDTH),
    "blk.0.attn_k": (WIDTH, WIDTH),
    "blk.0.attn_v": (WIDTH, WIDTH),
    "blk.0.attn_output": (WIDTH, WIDTH),
    "blk.0.ffn_gate": (HIDDEN, WIDTH),
    "blk.0.ffn_up": (HIDDEN, WIDTH),
    "blk.0.ffn_down": (WIDTH, HIDDEN),
}


async def test_a_gguf_file_is_dropped_and_answers(
    open_app: OpenApp, folders: Folders, tmp_path: Path
) -> None:
    tensors = [Tensor(f"{name}.weight", shape) for name, shape in SHAPES.items()]
    model = write(tmp_path / "Tiny-F32.gguf", KEYS, tensors)
    unknown = write(tmp_path / "Odd.gguf", KEYS | {"general.architecture": ("text", "odd")})
    damaged = tmp_path / "Cut.gguf"
    damaged.write_bytes(model.read_bytes()[:5_000])
    app = await open_app(EngineClient(folders.engine_log))
    status = app.parts.engine
    await until(lambda: status.status.phase is Phase.READY)

    async def refused(path: Path, reason: str) -> None:
        drop(app, files([path]))
        await until(lambda: words(app, "toastText").startswith(reason), reason)
        assert words(app, "modelName") == "The demo model"

    await refused(unknown, "Odd was not loaded. Waymark doesn't know this kind of model:")
    await refused(damaged, "Cut was not loaded. The weights are damaged:")
    drop(app, files([model]))
    await until(lambda: words(app, "modelName") == "Tiny-F32", "the file is loaded")
    await until(lambda: status.status.phase is Phase.READY)
    assert status.model is not None and status.model.path == str(model)
    type_in(app, "hello")
    press(app, "sendButton")
    await until(lambda: app.parts.chat.running is not None)
    app.parts.chat.stop()
    await ended(app)
