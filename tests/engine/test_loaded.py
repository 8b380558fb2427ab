"""What a model folder is refused for when its parts are put together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.api.errors import BrokenTokenizerError
from core.api.params import ModelSettings
from core.engine import loaded
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
