"""A model folder is refused if its parts don't match."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pytest
import torch

from core.api.errors import BrokenTokenizerError, RequestCancelled, SlowFolderError
from core.api.params import ModelSettings
from core.engine import loaded
from core.loading.plan import ModelPlan
from core.model_files import LookingTime
from core.weights.published.folder import ModelFolder
from tests.oracle.tiny_lfm2_vl import write_lfm2_vl


def test_marks_of_tiles_are_tokens_that_the_model_has(tmp_path: Path) -> None:
    """A GPU that is asked for a row that its table lacks is of no use afterwards."""
    write_lfm2_vl(tmp_path)
    path = tmp_path / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    (mark,) = (
        each for each in tokenizer["added_tokens"] if each["content"] == "<|img_row_1_col_1|>"
    )
    mark["id"] = 10**9
    path.write_text(json.dumps(tokenizer))
    settings = ModelSettings(path=str(tmp_path), measure_kernels=False, device="cpu")
    with pytest.raises(BrokenTokenizerError, match="img_row_1_col_1"):
        loaded.load(settings, lambda done, total: None, lambda: None)


# About a second for each conversation that the template is tried on, some thirty of them.
SLOW_TEMPLATE = (
    "{% for a in range(1000) %}{% for b in range(8000) %}{% endfor %}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if enable_thinking %}<|im_start|>{% endif %}"
)


@pytest.fixture
def slow(tmp_path: Path) -> ModelSettings:
    write_lfm2_vl(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(SLOW_TEMPLATE)
    return ModelSettings(path=str(tmp_path), measure_kernels=False, device="cpu")


def test_a_stop_is_heard_while_a_template_is_tried(slow: ModelSettings) -> None:
    """It took 92 s until the folder had been looked at."""
    began = time.monotonic()

    def check() -> None:
        if time.monotonic() - began > 1:
            raise RequestCancelled("Stopped.")

    with pytest.raises(RequestCancelled):
        loaded.load(slow, lambda done, total: None, check)
    assert time.monotonic() - began < 5


def test_a_folder_that_takes_too_long_to_look_at_is_an_error_with_a_name(
    slow: ModelSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded, "LookingTime", partial(LookingTime, seconds=2))
    with pytest.raises(SlowFolderError, match="take longer to look at"):
        loaded.load(slow, lambda done, total: None, lambda: None)


def test_every_tensor_of_headers_and_plan_is_a_chance_to_stop(tmp_path: Path) -> None:
    write_lfm2_vl(tmp_path)
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1

    folder = ModelFolder.open(tmp_path, check)
    assert asked >= len(folder.tensors)
    asked = 0
    plan = ModelPlan(folder, LookingTime(check))
    tensors = plan.held(torch.float32).tensors
    assert asked >= len(tensors) > 10


def test_time_counts_only_while_a_folder_is_looked_at() -> None:
    looking = LookingTime(seconds=0.2)
    with looking:
        looking()
    time.sleep(0.3)
    with looking:
        looking()
        time.sleep(0.3)
        with pytest.raises(SlowFolderError):
            looking()
