"""The decoder of every family: embedding table, blocks, final norm and head; perhaps a vision tower
and an MTP head."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from core.api.errors import NoVisionError
from core.api.model_info import KVSize
from core.layers.block import HybridBlock
from core.layers.linear import Linear
from core.layers.memory import Forward, LayerMemory, LayerSpec, kv_size
from core.layers.norm import ZeroCentredRMSNorm
from core.layers.per_layer import PerLayerInputs
from core.layers.rope import Rotation, Rotations
from core.models.settings import Settings, TextSettings, parse_settings
from core.weights.plan import Weights

# Scope of the MTP head. A folder that has the tensor MTP_MARK has a head.
MTP_SCOPE = "mtp"
MTP_MARK = f"{MTP_SCOPE}.fc.weight"
# Tokens that an MTP head may draft. The output head is a third of a small model's step, and a
# vocabulary's first tokens are its most frequent.
DRAFTED = 65_536


def _as_asked(config: Any, found: Collection[str]) -> Callable[[str], str]:
    return lambda name: name


def with_prefixes(
    found: Collection[str], *prefixes: tuple[str, str, Sequence[str]]
) -> Callable[[str], str]:
    """Names of families whose folders spell scopes in several ways. `prefixes`: a scope as the
    layers name it, a name in it that tells the spellings apart, and the spellings, the usual one
    first."""
    chosen = {
        asked: next((each for each in spellings if each + telling in found), spellings[0])
        for asked, telling, spellings in prefixes
    }

    def published(name: str) -> str:
        prefix = next((each for each in chosen if name.startswith(each)), "")
        return chosen.get(prefix, "") + name.removeprefix(prefix)

    return published


@dataclass(frozen=True, slots=True)
class Family:
    """`name` is in the fingerprint of saved contexts and never changes. `published_names` maps the
    layers' names to a folder's."""

    name: str
    config: type[Settings]
    build: Callable[[Any, Weights, torch.device], Decoder]
    published_names: Callable[[Any, Collection[str]], Callable[[str], str]] = _as_asked

    def parse(self, values: Mapping[str, Any], source: str = "config.json") -> Settings:
        """Raises BrokenConfigError."""
        return parse_settings(self.config, values, source)


class Tower(Protocol):
    @property
    def config(self) -> Settings: ...

    def __call__(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """Patches [rows * columns, patch width] -> [tokens, image_width]. Calls `check` before
        every block."""
        ...


class MTPHead:
    """Predicts the token after the next from a token's final hidden row and the next token's
    embedding: norm(block(fc([norm embedding; norm hidden]))), which the output head reads
    (DeepSeek-V3, arXiv:2412.19437, section 2.2)."""

    def __init__(self, weights: Weights, width: int, epsilon: float, block: HybridBlock) -> None:
        def norm(name: str) -> ZeroCentredRMSNorm:
            return ZeroCentredRMSNorm(weights.scope(name), width, epsilon)

        self.embedding_norm = norm("pre_fc_norm_embedding")
        self.hidden_norm = norm("pre_fc_norm_hidden")
        self.join = Linear(weights, "fc", 2 * width, width)
        self.block, self.specs = block, block.specs
        self.norm = norm("norm")

    def inputs(self, embeddings: Tensor, hidden: Tensor) -> Tensor:
        return torch.cat([self.embedding_norm(embeddings), self.hidden_norm(hidden)], dim=1)

    def __call__(self, inputs: Tensor, forward: Forward, slot: int) -> Tensor:
        joined = self.join(inputs, forward.memory.is_step)
        return self.norm(self.block(joined, forward, slot))


class Decoder:
    """The same call on the same machine gives the same bits: kernels and row blocks are chosen by
    shapes alone. `image_width` exceeds `hidden_size` with DeepStack, `embedding_width` with
    per-layer embeddings."""

    def __init__(
        self,
        weights: Weights,
        text: Weights,
        device: torch.device,
        config: TextSettings,
        *,
        tied: bool,
        blocks: Sequence[HybridBlock],
        norm: Callable[[Tensor], Tensor],
        ropes: Mapping[str, Callable[[Tensor], Rotation]],
        tower: Tower | None = None,
        mtp: MTPHead | None = None,
        image_layers: int = 0,
        embedding_multiplier: float = 1.0,
        logits_multiplier: float = 1.0,
        logits_cap: float | None = None,
        per_layer: PerLayerInputs | None = None,
    ) -> None:
        """`text` is the text stack's scope. `tied`: the head is the embedding table. After each of
        the first `image_layers` blocks further features of a picture are added to its tokens
        (DeepStack, arXiv:2406.04334). `logits_cap`: logits x become cap * tanh(x / cap)."""
        hidden_size, vocab_size = config.hidden_size, config.vocab_size
        self.device, self.dtype = device, weights.dtype
        self.hidden_size, self.vocab_size = hidden_size, vocab_size
        self.image_width = hidden_size * (1 + image_layers)
        self.max_positions = config.max_position_embeddings
        self.embedding = text.table("embed_tokens.weight", (vocab_size, hidden_size))
        scope, name = (text, "embed_tokens") if tied else (weights, "lm_head")
        self.head = scope.matrix([(name, vocab_size)], hidden_size)
        self._draft_head = self.head.first(DRAFTED)
        self.blocks, self.norm, self.ropes = blocks, norm, ropes
        # Later blocks change no row but their own, of which prompts need few.
        last = max((count for count, block in enumerate(blocks, 1) if block.specs), default=0)
        self._num_remembering = max(last, image_layers)
        self.tower, self.mtp = tower, mtp
        self.per_layer = per_layer
        self.embedding_width = hidden_size + (per_layer.width if per_layer else 0)
        self._multipliers, self._logits_cap = (embedding_multiplier, logits_multiplier), logits_cap
        self.num_parameters = weights.num_parameters
        self.batch_invariant = weights.batch_invariant
        self.batch_invariant_steps = weights.batch_invariant_steps

    @property
    def has_vision(self) -> bool:
        return self.tower is not None

    @property
    def vision_config(self) -> dict[str, Any]:
        return self.tower.config.model_dump() if self.tower is not None else {}

    @property
    def has_mtp(self) -> bool:
        return self.mtp is not None

    @property
    def layer_specs(self) -> tuple[LayerSpec, ...]:
        """Specs in the order of the forward, then the MTP head's."""
        specs = tuple(spec for block in self.blocks for spec in block.specs)
        return specs if self.mtp is None else (*specs, *self.mtp.specs)

    @property
    def kv_size(self) -> KVSize:
        return kv_size(self.layer_specs)

    @torch.inference_mode()
    def embed(self, ids: Tensor) -> Tensor:
        """Token ids [n] -> [n, embedding_width]."""
        rows, multiplier = self.embedding(ids), self._multipliers[0]
        rows = rows if multiplier == 1 else rows * multiplier
        return rows if self.per_layer is None else torch.cat([rows, self.per_layer.rows(ids)], 1)

    @torch.inference_mode()
    def encode_image(
        self, pixels: Tensor, rows: int, columns: int, check: Callable[[], None]
    ) -> Tensor:
        """Float32 patches [rows * columns, patch width] of one picture -> [tokens, image_width].
        Calls `check` between blocks. Raises NoVisionError."""
        if self.tower is None:
            raise NoVisionError("This model reads text only.")
        return self.tower(pixels.to(self.device), rows, columns, check)

    @torch.inference_mode()
    def forward(
        self,
        embeddings: Tensor,
        positions: Tensor,
        memory: LayerMemory,
        *,
        image: bool = False,
        wanted: Sequence[int] | None = None,
    ) -> Tensor:
        """[n, embedding_width] at `positions` [3, n] -> [n, hidden_size] after the final norm.

        `image`: the rows are one picture, [n, image_width]. `wanted`: only these rows, which pass
        the last layers without memory one by one. Raises RequestCancelled between layers.
        """
        rotations = self.rotations(positions, memory.runs)
        return self.through(embeddings, rotations, memory, image=image, wanted=wanted)

    @torch.inference_mode()
    def rotations(self, positions: Tensor, runs: tuple[int, ...]) -> Rotations:
        """Rotations at `positions` [3, n], by the name of each RoPE."""
        if len(runs) == 1:
            return {name: rope(positions) for name, rope in self.ropes.items()}
        # Run by run: torch's cosine rounds differently at the end of a tensor.
        apart = [self.rotations(each, (each.shape[1],)) for each in positions.split(runs, dim=1)]
        return {name: _joined([run[name] for run in apart]) for name in self.ropes}

    @torch.inference_mode()
    def through(
        self,
        hidden: Tensor,
        rotations: Rotations,
        memory: LayerMemory,
        *,
        image: bool = False,
        wanted: Sequence[int] | None = None,
    ) -> Tensor:
        per_layer: Sequence[Tensor] = ()
        if self.per_layer is not None:
            hidden, per_layer = self.per_layer(hidden, memory.is_step)
        hidden, *features = hidden.split(self.hidden_size, dim=1)
        forward, slot = Forward(rotations, memory, image, per_layer), 0
        blocks = self.blocks if wanted is None else self.blocks[: self._num_remembering]
        for index, block in enumerate(blocks):
            memory.check_cancelled()
            hidden = block(hidden, forward, slot)
            if index < len(features):
                hidden = hidden + features[index]
            slot += len(block.specs)
        if wanted is not None:
            hidden = torch.cat([self._last_blocks(hidden, forward, row) for row in wanted])
        return self.norm(hidden)

    def _last_blocks(self, hidden: Tensor, forward: Forward, row: int) -> Tensor:
        alone, forward = hidden[row : row + 1], forward.of_row(row, len(hidden))
        for block in self.blocks[self._num_remembering :]:
            forward.memory.check_cancelled()
            alone = block(alone, forward, 0)
        return alone

    @torch.inference_mode()
    def head_inputs(self, embeddings: Tensor, hidden: Tensor) -> Tensor:
        """The MTP head's inputs [n, 2 hidden_size]: `embeddings` of tokens, and the `hidden` rows
        of the tokens before them."""
        assert self.mtp is not None
        return self.mtp.inputs(embeddings, hidden)

    @torch.inference_mode()
    def predict(self, inputs: Tensor, rotations: Rotations, memory: LayerMemory) -> Tensor:
        """Rows [n, hidden_size] of `head_inputs`, at the positions of the tokens before; their
        `logits` predict the tokens after."""
        assert self.mtp is not None
        memory.check_cancelled()
        slot = len(self.layer_specs) - len(self.mtp.specs)
        return self.mtp(inputs, Forward(rotations, memory), slot)

    @torch.inference_mode()
    def likeliest(self, hidden: Tensor) -> int:
        """The most likely of the first DRAFTED tokens after an MTP row [hidden_size]."""
        return int(self._draft_head.step(hidden[None])[0].argmax())

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        logits, multiplier = self.head.step(hidden).float(), self._multipliers[1]
        logits = logits if multiplier == 1 else logits * multiplier
        cap = self._logits_cap
        return logits if cap is None else (logits / cap).tanh_().mul_(cap)


def _joined(rotations: Sequence[Rotation]) -> Rotation:
    cosines, sines = zip(*rotations, strict=True)
    return torch.cat(cosines), torch.cat(sines)
