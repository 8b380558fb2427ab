"""Exports a training state as the shipped model."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from published_model import DEMO_FOLDER, REPOSITORY, write_settings, write_weights
from tokenizers import Tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "demo_model")
    parser.add_argument("--to", type=Path, default=DEMO_FOLDER)
    options = parser.parse_args()
    state = torch.load(options.work / "state.pt")
    write_settings(Tokenizer.from_file(str(DEMO_FOLDER / "tokenizer.json")), options.to)
    write_weights(state["model"], options.to)
    print(f"step {state['step']} -> {options.to}")


if __name__ == "__main__":
    main()
