"""Facts of a processor, in one line and as a level."""

from __future__ import annotations

import pytest
import torch

from kernels.common import capability


def test_the_same_torch_level_on_another_processor_is_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both say "AVX512"; oneDNN multiplies in tiles on the second one and cuts other blocks."""
    facts = {"avx512_bf16": True, "amx_bf16": False, "l2_cache_size": 2**20, "num_sockets": 1}
    others = ({**facts, "amx_bf16": True}, {**facts, "l2_cache_size": 2**21})
    lines = []
    for each in (facts, *others, {**facts, "num_sockets": 2}):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda each=each: each)
        lines.append(capability.processor_facts())
    assert len(set(lines[:3])) == 3
    assert lines[3] == lines[0]  # how many there are changes no bit: threads are counted apart


@pytest.mark.parametrize(
    ("has", "level"),
    [
        ({"amx_bf16": True, "avx512_f": True, "avx2": True}, "AMX"),
        ({"amx_bf16": False, "avx512_f": True, "avx2": True}, "AVX-512"),
        ({"avx512_f": False, "avx2": True}, "AVX2"),
        ({"architecture": "aarch64"}, "aarch64"),
        ({}, ""),
    ],
)
def test_the_processors_level_is_the_widest_it_has(
    monkeypatch: pytest.MonkeyPatch, has: dict[str, object], level: str
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has)
    assert capability.processor_level() == level
