"""Trains the demo model's MTP head over its frozen body, and puts it into the shipped folder.

The head guesses the token behind the next one from what the body made of a token and from the next
one's embedding; then, as it drafts, from what it made itself.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from typing import Any

import torch
from batches import Bank, Batch, batches, embed, fill_bank
from conversations import Plan
from encoding import Encoder
from language import rms_norm, run_attention, run_language
from published_model import DEMO_FOLDER, write_settings, write_weights
from safetensors.torch import load_file
from start import trained_model
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional as F
from transformers import Qwen3_5ForConditionalGeneration
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    Qwen3_5DecoderLayer,
    Qwen3_5RMSNorm,
    Qwen3_5TextModel,
)

SAY_EVERY = 20
# What a token further on counts for.
DEPTH_WEIGHTS = (1.0, 0.5, 0.25)


class Head(nn.Module):
    """The tensors of a head as they are published, behind `mtp.`; trained in float32."""

    def __init__(self, language: Qwen3_5TextModel) -> None:
        super().__init__()
        config, width = language.config, language.config.hidden_size
        attends = (config.layer_types or []).index("full_attention")
        self.fc = nn.Linear(2 * width, width, bias=False)
        self.pre_fc_norm_embedding = Qwen3_5RMSNorm(width, config.rms_norm_eps)
        self.pre_fc_norm_hidden = Qwen3_5RMSNorm(width, config.rms_norm_eps)
        self.layers = nn.ModuleList([Qwen3_5DecoderLayer(config, attends)])
        self.norm = Qwen3_5RMSNorm(width, config.rms_norm_eps)
        # The body's last layer of the kind, and of two inputs their sum.
        last = [layer for layer in language.layers if hasattr(layer, "self_attn")][-1]
        self.layers[0].load_state_dict(last.state_dict())
        self.norm.load_state_dict(language.norm.state_dict())
        nn.init.normal_(self.fc.weight, std=width**-0.5)

    def forward(
        self,
        embedded: torch.Tensor,
        hidden: torch.Tensor,
        rotation: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """[B, T, width] embeddings and the hidden rows before them -> [B, T, width]."""
        both = torch.cat(
            [
                rms_norm(self.pre_fc_norm_embedding, embedded),
                rms_norm(self.pre_fc_norm_hidden, hidden),
            ],
            dim=-1,
        )
        rows = self.fc(both)
        layer: Any = self.layers[0]
        rows = rows + run_attention(
            layer.self_attn, rms_norm(layer.input_layernorm, rows), rotation
        )
        rows = rows + layer.mlp(rms_norm(layer.post_attention_layernorm, rows))
        return rms_norm(self.norm, rows)


def losses(
    model: Qwen3_5ForConditionalGeneration, head: Head, batch: Batch, bank: Bank
) -> tuple[torch.Tensor, list[float]]:
    """The weighted cross entropy of drafts of each depth, and the share of them that is right."""
    language = model.model.language_model
    with torch.no_grad():
        embedded = embed(model, batch, bank).float()
        hidden = run_language(language, embedded, batch.positions).float()
    total, shares = torch.zeros(()), []
    for depth, weight in enumerate(DEPTH_WEIGHTS, start=1):
        # Row i: what stands behind token i, at whose position it is.
        places = batch.positions[:, :, : embedded.shape[1] - depth]
        rotation = language.rotary_emb(embedded, places)
        hidden = head(embedded[:, depth:], hidden[:, : places.shape[2]], rotation)
        labels = batch.labels[:, depth + 1 :]
        learnt = labels >= 0
        logits = F.linear(hidden[:, :-1][learnt], model.lm_head.weight).float()
        total = total + weight * F.cross_entropy(logits, labels[learnt])
        shares.append((logits.argmax(-1) == labels[learnt]).float().mean().item())
        hidden = hidden[:, :-1]
    return total, shares


def train(options: argparse.Namespace) -> Head:
    torch.manual_seed(options.seed)
    tokenizer = Tokenizer.from_file(str(DEMO_FOLDER / "tokenizer.json"))
    model = trained_model(tokenizer, DEMO_FOLDER)
    model.requires_grad_(False)
    head = Head(model.model.language_model)
    bank = fill_bank(model.model.visual, options.bank, options.seed, held_out=False)
    rng = random.Random(options.seed)
    stream = batches(rng, bank, Encoder(tokenizer), Plan(), options.tokens)
    optimiser = torch.optim.AdamW(head.parameters(), lr=options.rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, options.rate, total_steps=options.steps, pct_start=0.1
    )
    began = time.monotonic()
    for step in range(1, options.steps + 1):
        with torch.autocast("cpu", torch.bfloat16):
            loss, shares = losses(model, head, next(stream), bank)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % SAY_EVERY == 0:
            line = {"step": step, "loss": round(loss.item(), 4)}
            right = [round(share, 3) for share in shares]
            seconds = round(time.monotonic() - began)
            print(json.dumps({**line, "right": right, "seconds": seconds}), flush=True)
    return head


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--tokens", type=int, default=3072)
    parser.add_argument("--bank", type=int, default=4000)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--to", type=Path, default=DEMO_FOLDER)
    options = parser.parse_args()
    torch.set_num_threads(1)
    head = train(options)
    weights = load_file(DEMO_FOLDER / "model.safetensors")
    body = {name: tensor for name, tensor in weights.items() if not name.startswith("mtp.")}
    made = {f"mtp.{name}": tensor for name, tensor in head.state_dict().items()}
    write_settings(Tokenizer.from_file(str(DEMO_FOLDER / "tokenizer.json")), options.to)
    write_weights(body | made, options.to)


if __name__ == "__main__":
    main()
