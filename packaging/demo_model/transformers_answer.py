"""Answers a conversation with transformers' reference classes: for training and comparison only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from encoding import TOKENS_PER_PICTURE
from pictures import stack_pictures
from questions import Message
from transformers import AutoModelForImageTextToText, AutoTokenizer

MOST_TOKENS = 128


def pictures_of(messages: list[Message]) -> list[object]:
    """The pictures of a conversation in reading order."""
    contents = [m["content"] for m in messages if not isinstance(m["content"], str)]
    return [part["image"] for parts in contents for part in parts if part["type"] == "image"]


def answer_with(folder: Path) -> Callable[[list[Message], bool], str]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    pad = model.config.image_token_id

    def answer(messages: list[Message], thinking: bool) -> str:
        prompt = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, enable_thinking=thinking, tokenize=False
        )
        prompt = prompt.replace("<|image_pad|>", "<|image_pad|>" * TOKENS_PER_PICTURE)
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        pictures = pictures_of(messages)
        if pictures:
            inputs["pixel_values"], inputs["image_grid_thw"] = stack_pictures(pictures)
            inputs["mm_token_type_ids"] = (ids == pad).long()
        with torch.no_grad():
            out = model.generate(**inputs, max_new_tokens=MOST_TOKENS)
        text: str = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
        return text

    return answer
