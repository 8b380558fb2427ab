"""Running one prompt through the oracle and through Waymark, and comparing what comes out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel

from core.api.prompt import Image, Prompt, Segment, TextRun
from core.models.decoder import Decoder
from core.weights.published.folder import ModelFolder
from kernels.dispatch import BackendName, backend
from tests.loads import load_model
from tests.models.memory import ConcatenatingMemory
from tests.oracle.checkpoints import token_id

# Of the standard deviation of the oracle's logits; below this margin its choice may go either way.
TOLERANCE = 2e-3
MARGIN = 1e-2
CPU = torch.device("cpu")

# Around the ends of 150 tokens, a convolution's taps, and one and two chunks of the scans.
FEW = (1, 2, 3, 4, 16, 63, 64, 65, 100, 127, 128, 129, 148, 149)
CUTS = pytest.mark.parametrize(
    "cuts",
    [
        pytest.param(FEW, id="few cuts"),
        pytest.param(range(1, 1000), id="every cut", marks=pytest.mark.slow),
    ],
)


@dataclass(frozen=True)
class Picture:
    """Random patches of a grid of rows x columns patches; both even."""

    rows: int
    columns: int
    seed: int = 0

    @property
    def pixels(self) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        return torch.rand(self.rows * self.columns, 1536, generator=generator) * 2 - 1

    @property
    def segment(self) -> Image:
        rows, columns = self.rows // 2, self.columns // 2
        key = f"picture {self.seed:>8}".encode()
        return Image(key, rows, columns, max(rows, columns))

    def rows_of(self, model: Decoder) -> Tensor:
        return model.encode_image(self.pixels, self.rows, self.columns, lambda: None)


Pieces = Sequence[tuple[int, ...] | TextRun | Picture]


@dataclass(frozen=True)
class Pair:
    """The oracle and our model with the same weights."""

    oracle: PreTrainedModel
    model: Decoder


def load(
    path: Path, dtype: torch.dtype = torch.float32, kernels: BackendName = "reference"
) -> Decoder:
    """Our model from a folder."""
    folder, chosen = ModelFolder.open(path), backend(kernels, dtype)
    return load_model(folder, CPU, dtype, kernels=chosen).model


def make_pair(write: Callable[[Path, Any], PreTrainedModel], path: Path, tiny: Any) -> Pair:
    """Of the folder that `write` writes."""
    return Pair(write(path, tiny), load(path))


def text(count: int, seed: int = 0) -> tuple[int, ...]:
    """Random ids of ordinary tokens."""
    generator = torch.Generator().manual_seed(1000 + seed)
    return tuple(torch.randint(0, 300, (count,), generator=generator).tolist())


def prompt_of(pieces: Pieces, grid: int = 4096) -> Prompt:
    segments: list[Segment] = [
        piece.segment
        if isinstance(piece, Picture)
        else TextRun(piece)
        if isinstance(piece, tuple)
        else piece
        for piece in pieces
    ]
    return Prompt(tuple(segments), frozenset(), grid)


def oracle_inputs(pieces: Pieces) -> dict[str, Tensor]:
    """Arguments of the oracle's forward: ids, types of tokens, pixels and grids."""
    ids = torch.tensor([prompt_of(pieces).ids(token_id("<|image_pad|>"))])
    pictures = [piece for piece in pieces if isinstance(piece, Picture)]
    if not pictures:
        return {"input_ids": ids}
    return {
        "input_ids": ids,
        "mm_token_type_ids": (ids == token_id("<|image_pad|>")).int(),
        "pixel_values": torch.cat([picture.pixels for picture in pictures]),
        "image_grid_thw": torch.tensor([[1, each.rows, each.columns] for each in pictures]),
    }


def oracle_logits(pair: Pair, pieces: Pieces) -> Tensor:
    """[tokens, vocabulary] of one forward over the whole prompt."""
    with torch.inference_mode():
        logits: Tensor = pair.oracle(**oracle_inputs(pieces), use_cache=False).logits[0]
    return logits


def inputs(model: Decoder, pieces: Pieces) -> tuple[Tensor, Tensor]:
    """Embeddings [tokens, image_width] and positions [3, tokens] of a whole prompt.

    A text's rows have zeros where a picture's have what is added after the first layers.
    """
    wider = model.image_width - model.hidden_size
    rows = [
        piece.rows_of(model)
        if isinstance(piece, Picture)
        else functional.pad(model.embed(torch.tensor(getattr(piece, "ids", piece))), (0, wider))
        for piece in pieces
    ]
    return torch.cat(rows), positions(pieces)


def positions(pieces: Pieces) -> Tensor:
    parts = [torch.tensor(run.position_ids()) for run in prompt_of(pieces).runs]
    return torch.cat(parts, dim=1)


def our_logits(model: Decoder, pieces: Pieces, cuts: Sequence[int] = ()) -> Tensor:
    """[tokens, vocabulary], prefilled from cut to cut."""
    return logits_between(model, inputs(model, pieces), cuts)


def logits_between(model: Decoder, given: tuple[Tensor, Tensor], cuts: Sequence[int]) -> Tensor:
    """Like `our_logits`, from embeddings and positions."""
    embeddings, places = given
    memory = ConcatenatingMemory(model.layer_specs)
    edges = [0, *cuts, embeddings.shape[0]]
    hidden = [
        model.forward(embeddings[start:end], places[:, start:end], memory)
        for start, end in itertools.pairwise(edges)
    ]
    return model.logits(torch.cat(hidden))


def deviation(found: Tensor, expected: Tensor) -> float:
    """The largest difference, in standard deviations of what was expected."""
    return float((found - expected).abs().max() / expected.std())


def assert_same(found: Tensor, expected: Tensor) -> None:
    """Logits within the tolerance, and the same greedy token wherever the oracle is sure."""
    assert deviation(found, expected) <= TOLERANCE
    best = expected.topk(2, dim=-1).values
    sure = best[:, 0] - best[:, 1] >= MARGIN
    assert torch.equal(found.argmax(-1)[sure], expected.argmax(-1)[sure])


def rms_ratio(found: Tensor, expected: Tensor) -> float:
    """Root mean square of the difference over that of what was expected."""
    return float((found - expected).square().mean().sqrt() / expected.square().mean().sqrt())


def usual_error(found: Tensor, exact: Tensor) -> float:
    """Of half of the tokens, as a share of the logits' standard deviation."""
    return float((found - exact).square().mean(1).median().sqrt() / exact.std())


def greedy(model: Decoder, pieces: Pieces, forced: Sequence[int]) -> Tensor:
    """Logits before each of `forced`, decoded one by one after the prompt: [forced, vocabulary]."""
    embeddings, places = inputs(model, pieces)
    memory = ConcatenatingMemory(model.layer_specs)
    last = model.forward(embeddings, places, memory)[-1:]
    rows, position = [model.logits(last)], prompt_of(pieces).end.position.value
    for token in forced[:-1]:
        place = torch.full((3, 1), position)
        rows.append(model.logits(model.forward(model.embed(torch.tensor([token])), place, memory)))
        position += 1
    return torch.cat(rows)


def assert_greedy_tokens(pair: Pair, pieces: Pieces, count: int = 24) -> None:
    """Assert that we sample the tokens that the oracle generates greedily with its cache."""
    ids, oracle = torch.tensor(pieces), cast(Any, pair.oracle)
    made = oracle.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=count,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    chosen = made.sequences[0, ids.shape[1] :].tolist()
    assert len(chosen) == count
    assert_same(greedy(pair.model, pieces, chosen), torch.cat(made.logits))


def assert_cuts(pair: Pair, pieces: Pieces, cuts: Iterable[int]) -> None:
    """A text that is read in two runs, against the oracle that reads it whole."""
    expected, given = oracle_logits(pair, pieces), inputs(pair.model, pieces)
    cuts = [cut for cut in cuts if cut < expected.shape[0]]
    found = [logits_between(pair.model, given, [cut]) for cut in cuts]
    assert max(deviation(logits, expected) for logits in found) <= TOLERANCE
