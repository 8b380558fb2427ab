"""Trains the demo model's language part over the frozen tower's readings of a bank of pictures.

Seeded and resumable. Two processes of one thread each share a step: a second thread of one process
waits at every operation when something else wants its core, a second process only once a step.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
from batches import Bank, Batch, batches, embed, fill_bank
from conversations import PICTURE_WEIGHTS, Plan
from encoding import Encoder
from language import run_language
from published_model import DEMO_FOLDER, REPOSITORY
from start import build_model, trained_model
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional as F
from transformers import Qwen3_5ForConditionalGeneration

SAVE_EVERY = 100
# Words must stay near what the pictures were aligned to: at the common rate they left in 50 steps.
EMBEDDING_RATE = 0.2
SAY_EVERY = 20


@dataclass(frozen=True)
class Options:
    work: Path
    steps: int
    tokens: int
    bank: int
    seed: int
    processes: int
    rate: float
    resume: bool
    start: Path | None
    stage: str


def read_options() -> Options:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "demo_model")
    parser.add_argument("--steps", type=int, default=3000, help="the step to stop at")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens a step, all processes")
    parser.add_argument("--bank", type=int, default=12000, help="pictures in the bank")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rate", type=float, default=4e-3, help="Muon's learning rate")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--start", type=Path, help="train on from a published folder's weights")
    parser.add_argument("--stage", default="auto", help="auto, or a name of STAGES")
    return Options(**vars(parser.parse_args()))


# The share of the steps after which a stage begins, and its conversations.
STAGES = {
    "look": (0.0, Plan(most_turns=1, most_pictures=1, share_without_pictures=0.0)),
    "middle": (0.1, Plan(most_turns=4, most_pictures=1, share_without_pictures=0.1)),
    "long": (0.2, Plan()),
    # By name only, from weights that know the rest: what they still get wrong, more often.
    "polish": (
        2.0,
        Plan(
            share_told=0.45,
            share_invented_names=0.75,
            weights={**PICTURE_WEIGHTS, "count": 8, "colour": 6},
        ),
    ),
}


def stage_at(step: int, options: Options) -> str:
    if options.stage != "auto":
        return options.stage
    begun = [name for name, (share, _) in STAGES.items() if step >= share * options.steps]
    return begun[-1]


def loss_of(model: Qwen3_5ForConditionalGeneration, batch: Batch, bank: Bank) -> torch.Tensor:
    embedded = embed(model, batch, bank)
    hidden = run_language(model.model.language_model, embedded, batch.positions)
    learnt = batch.labels[:, 1:] >= 0
    logits = F.linear(hidden[:, :-1][learnt], model.lm_head.weight)
    return F.cross_entropy(logits.float(), batch.labels[:, 1:][learnt])


class Optimiser:
    """Muon for the matrices, AdamW for the rest, one schedule: warm up, hold, fall to zero."""

    def __init__(self, model: nn.Module, options: Options) -> None:
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        inner = [p for n, p in named if p.ndim == 2 and "embed" not in n]
        rest = [p for n, p in named if p.ndim != 2]
        words = [p for n, p in named if "embed" in n]
        self.options = options
        self.muon = torch.optim.Muon(
            inner, lr=options.rate, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"
        )
        groups = [{"params": rest, "share": 1.0}, {"params": words, "share": EMBEDDING_RATE}]
        self.adam = torch.optim.AdamW(groups, lr=options.rate, betas=(0.9, 0.98), weight_decay=0.0)
        self.parameters = [*inner, *rest, *words]

    def rate_at(self, step: int) -> float:
        total = self.options.steps
        warm, fall = min(1.0, (step + 1) / 100), min(1.0, (total - step) / (0.35 * total))
        return self.options.rate * warm * max(fall, 0.01)

    def step(self, number: int) -> None:
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for optimiser in (self.muon, self.adam):
            for group in optimiser.param_groups:
                group["lr"] = self.rate_at(number) * group.get("share", 1.0)
            optimiser.step()
            optimiser.zero_grad()


def share_gradients(parameters: list[nn.Parameter]) -> None:
    if not dist.is_initialized():
        return
    flat = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    offset = 0
    for parameter in parameters:
        if parameter.grad is not None:
            part = flat[offset : offset + parameter.numel()]
            parameter.grad.copy_(part.view_as(parameter))
            offset += parameter.numel()


def load_bank(tower: nn.Module, options: Options) -> Bank:
    path = options.work / f"bank-{options.bank}.pt"
    if path.exists():
        scenes, tokens = torch.load(path, weights_only=False)
        return Bank(scenes, tokens)
    bank = fill_bank(tower, options.bank, options.seed, held_out=False)
    torch.save((bank.scenes, bank.tokens), path)
    return bank


class Trainer:
    """One process of the training."""

    def __init__(self, rank: int, options: Options) -> None:
        self.rank, self.options = rank, options
        tokenizer = Tokenizer.from_file(str(DEMO_FOLDER / "tokenizer.json"))
        self.encoder = Encoder(tokenizer)
        if options.start is None:
            self.model = build_model(tokenizer, options.work, options.seed)
        else:
            self.model = trained_model(tokenizer, options.start)
        self.optimiser = Optimiser(self.model, options)
        self.step, self.seconds = 0, 0.0
        if options.resume:
            self.load()
        self.bank = load_bank(self.model.model.visual, options)
        # The step is in the seed: a resumed run does not see the first run's conversations again.
        self.rng = random.Random(f"{options.seed} {rank} {self.step}")

    def load(self) -> None:
        state = torch.load(self.options.work / "state.pt")
        self.model.load_state_dict(state["model"])
        self.optimiser.muon.load_state_dict(state["muon"])
        self.optimiser.adam.load_state_dict(state["adam"])
        self.step, self.seconds = state["step"], state["seconds"]

    def save(self) -> None:
        """Save the state so that a reader never sees half of it."""
        state = {
            "model": self.model.state_dict(),
            "muon": self.optimiser.muon.state_dict(),
            "adam": self.optimiser.adam.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}",
        }
        torch.save(state, self.options.work / "state.pt.part")
        os.replace(self.options.work / "state.pt.part", self.options.work / "state.pt")

    def stream(self, stage: str) -> Iterator[Batch]:
        tokens = self.options.tokens // self.options.processes
        return batches(self.rng, self.bank, self.encoder, STAGES[stage][1], tokens)

    def one_step(self, batch: Batch) -> float:
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(self.model, batch, self.bank)
        loss.backward()  # type: ignore[no-untyped-call]
        share_gradients(self.optimiser.parameters)
        self.optimiser.step(self.step)
        return loss.item()

    def say(self, stage: str, loss: float) -> None:
        rate = self.optimiser.rate_at(self.step)
        line = {"step": self.step, "stage": stage, "loss": round(loss, 4), "rate": round(rate, 6)}
        print(json.dumps({**line, "seconds": round(self.seconds)}), flush=True)

    def run(self) -> None:
        stage, mean = "", 0.0
        stream: Iterator[Batch] = iter(())
        while self.step < self.options.steps:
            started = time.monotonic()
            if stage_at(self.step, self.options) != stage:
                stage = stage_at(self.step, self.options)
                stream = self.stream(stage)
            loss = self.one_step(next(stream))
            mean = loss if mean == 0 else 0.95 * mean + 0.05 * loss
            self.step += 1
            self.seconds += time.monotonic() - started
            if self.rank == 0 and self.step % SAY_EVERY == 0:
                self.say(stage, mean)
            if self.rank == 0 and (self.step % SAVE_EVERY == 0 or self.step == self.options.steps):
                self.save()


def run_process(rank: int, options: Options) -> None:
    torch.set_num_threads(1)
    if options.processes > 1:
        address = f"file://{options.work.resolve()}/meeting"
        dist.init_process_group("gloo", address, rank=rank, world_size=options.processes)
    trainer = Trainer(rank, options)
    trainer.run()


def main() -> None:
    options = read_options()
    (options.work / "meeting").unlink(missing_ok=True)
    if not (options.work / f"bank-{options.bank}.pt").exists():
        torch.set_num_threads(1)
        Trainer(0, replace(options, resume=False))
    torch.multiprocessing.spawn(run_process, (options,), nprocs=options.processes)


if __name__ == "__main__":
    main()
