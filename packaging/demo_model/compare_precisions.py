"""Prints what each precision costs: how far its answers are from float32's, and how many are right.

Over held-out conversations, each token of the last answer is predicted from the right ones before
it: mean KL divergence from float32 (nats a token), the share of tokens whose most likely is the
same, and the share of answers of which every token is first. What comes before the answer is read
in one forward, the answer token by token as it is generated: a single row goes through other
kernels than many do, which round differently. Once for the shipped model, once for one that
computes the same with outliers planted (channels before every matrix that are many times larger
than the others, as large models have them, and weights as much smaller), and once for one of random
weights with such outliers, which answers nothing right in any precision.
"""

from __future__ import annotations

import argparse
import io
import random
import shutil
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from encoding import IGNORED, Encoded, Encoder
from PIL import Image
from published_model import DEMO_FOLDER, REPOSITORY
from questions import cut, held_out_talks
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

# The scripts run by path; the engine lies two folders up.
sys.path.insert(0, str(REPOSITORY))

from core.api.params import ModelSettings, Precision
from core.api.positions import PositionIndex, TokenIndex
from core.api.prompt import ORIGIN, Cut
from core.cache.state import RecurrentState
from core.engine.loaded import LoadedModel, load
from core.engine.passes.decode import Decode
from core.engine.passes.memory import RunMemory
from core.vision.decode import PictureDecoder

PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "int8", "int4")
CHANNELS = 4
DECODER = PictureDecoder()
# The matrices behind each norm of a block.
READERS = {
    "input_layernorm": (
        "linear_attn.in_proj_",
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
    ),
    "post_attention_layernorm": ("mlp.gate_proj", "mlp.up_proj"),
}


@dataclass(frozen=True)
class Sample:
    """A conversation as ids, and its pictures."""

    encoded: Encoded
    placeholder: int
    pictures: list[Image.Image]

    @property
    def answer(self) -> list[int]:
        labels = self.encoded.labels
        first = max(place for place, label in enumerate(labels) if label == IGNORED) + 1
        return labels[first:]

    @property
    def prompt_end(self) -> Cut:
        first = len(self.encoded.ids) - len(self.answer)
        # The answer is text, whose three positions are the same.
        return Cut(TokenIndex(first), PositionIndex(self.encoded.positions[first][0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=DEMO_FOLDER)
    parser.add_argument("--count", type=int, default=300, help="conversations")
    parser.add_argument("--split", choices=("validation", "test"), default="test")
    parser.add_argument("--factor", type=float, default=30.0, help="how much larger outliers are")
    options = parser.parse_args()
    torch.set_num_threads(1)
    samples = draw(options.model, options.split, options.count)
    print(f"## As shipped, {options.count} conversations\n")
    print(table(options.model, samples))
    with TemporaryDirectory() as scratch:
        planted = plant_outliers(options.model, Path(scratch) / "planted", options.factor)
        print(f"\n## {CHANNELS} channels {options.factor:g} times larger\n")
        print(table(planted, samples))
        drawn = draw_weights(options.model, Path(scratch) / "drawn")
        planted = plant_outliers(drawn, Path(scratch) / "drawn and planted", options.factor)
        print("\n## The same of random weights\n")
        print(table(planted, samples))


def draw(folder: Path, split: str, count: int) -> list[Sample]:
    encoder = Encoder(Tokenizer.from_file(str(folder / "tokenizer.json")))
    talks, rng = held_out_talks(split, thinking=False), random.Random(7)
    samples = []
    for _ in range(count):
        talk, pictures = next(talks)
        encoded = encoder.encode(cut(talk, rng))
        shown = [pictures[number] for number in encoded.pictures]
        samples.append(Sample(encoded, encoder.picture, shown))
    return samples


def table(folder: Path, samples: Sequence[Sample]) -> str:
    rows = [
        "| precision | KL, nats a token | same first token | answers right |",
        "|---|---|---|---|",
    ]
    exact = list(predictions(folder, "float32", samples))
    for precision in PRECISIONS:
        divergences, same, right = [], [], []
        for sample, expected, found in zip(
            samples, exact, predictions(folder, precision, samples), strict=True
        ):
            divergences.append((expected.exp() * (expected - found)).sum(1))
            same.append((expected.argmax(1) == found.argmax(1)).float())
            right.append(found.argmax(1).tolist() == sample.answer)
        divergence, agreement = torch.cat(divergences).mean(), torch.cat(same).mean()
        share = sum(right) / len(right)
        rows.append(f"| {precision} | {divergence:.5f} | {agreement:.2%} | {share:.1%} |")
    return "\n".join(rows)


@torch.inference_mode()
def predictions(folder: Path, precision: Precision, samples: Sequence[Sample]) -> Iterator[Tensor]:
    """For each sample log probabilities [tokens of its last answer, vocabulary]."""
    settings = ModelSettings(path=str(folder), device="cpu", precision=precision)
    loaded = load(settings, lambda done, total: None, lambda: None)
    for sample in samples:
        yield answer_logits(loaded, sample).log_softmax(1)


def answer_logits(loaded: LoadedModel, sample: Sample) -> Tensor:
    """Logits [tokens of the last answer, vocabulary]: the prompt's, then each right token's."""
    first, state = read_prompt(loaded, sample)
    decode = Decode(
        loaded.model,
        loaded.cache.kv_buffer,
        state,
        sample.prompt_end,
        lambda: None,
        loaded.steps,
    )
    # What the end of the answer predicts is no part of it.
    return torch.stack([first, *(decode.step([token])[0] for token in sample.answer[:-1])])


def read_prompt(loaded: LoadedModel, sample: Sample) -> tuple[Tensor, RecurrentState]:
    """One forward over all before the last answer: logits [vocabulary] behind it, and the state."""
    model, num_tokens = loaded.model, sample.prompt_end.token.value
    positions = torch.tensor(sample.encoded.positions[:num_tokens]).T
    before = RecurrentState.zeros(model.layer_specs, model.device)
    memory = RunMemory(loaded.cache.kv_buffer, before, ORIGIN.token, lambda: None, (num_tokens,))
    hidden = model.forward(embed_prompt(loaded, sample), positions, memory)
    return model.logits(hidden[-1:])[0], memory.new_states()[-1]


def embed_prompt(loaded: LoadedModel, sample: Sample) -> Tensor:
    """Rows [tokens before the last answer, width]: embeddings of ids, and of pictures' cells."""
    ids = torch.tensor(sample.encoded.ids[: sample.prompt_end.token.value])
    embedded = loaded.model.embed(ids).clone()
    rows = [encode(loaded, picture) for picture in sample.pictures]
    if rows:
        embedded[ids == sample.placeholder] = torch.cat(rows).to(embedded.dtype)
    return embedded


def encode(loaded: LoadedModel, picture: Image.Image) -> Tensor:
    assert loaded.processor is not None
    file = io.BytesIO()
    picture.save(file, "PNG")
    with DECODER.open(file.getvalue(), "a drawn picture") as decoded:
        processed = loaded.processor.process(decoded)
    (grid,) = processed.grids
    return loaded.model.encode_image(processed.pixels, grid.rows, grid.columns, lambda: None)


def draw_weights(folder: Path, target: Path) -> Path:
    """Matrices and convolutions drawn at random, as spread as they were."""
    shutil.copytree(folder, target)
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        if tensor.dim() > 1:
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            drawn = torch.randn(tensor.shape, generator=generator) * tensor.float().std()
            tensors[name] = drawn.to(tensor.dtype)
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    return target


def plant_outliers(folder: Path, target: Path, factor: float) -> Path:
    """The same function with outliers: norms scaled up in some channels, weights behind down."""
    shutil.copytree(folder, target)
    tensors = load_file(folder / "model.safetensors")
    for name, norm in tensors.items():
        place, _, kind = name.removesuffix(".weight").rpartition(".")
        if kind not in READERS:
            continue
        generator = torch.Generator().manual_seed(len(name))
        channels = torch.randperm(norm.shape[0], generator=generator)[:CHANNELS]
        # The norm multiplies by 1 + w.
        norm[channels] = (factor * (1 + norm[channels].float()) - 1).to(norm.dtype)
        for reader in READERS[kind]:
            for each in (other for other in tensors if other.startswith(f"{place}.{reader}")):
                tensors[each][:, channels] /= factor
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    return target


if __name__ == "__main__":
    main()
