"""X1 on the GPU's kernels, in Triton's interpreter; and what a load does about one that lies."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
from torch import Tensor

from core.api.chat import Message
from core.api.params import Precision
from core.loading.precision import VARIABLE
from kernels.ops import PLAIN_OPS
from tests.promises.fixtures import FolderOf, PictureOf
from tests.promises.machine import Machine, load, same, system, user, words

gpu = pytest.importorskip("tests.kernels.gpu", reason="Triton is published for Linux alone")
pytestmark = pytest.mark.skipif(gpu.ON_GPU, reason="the engines here are on the processor")


@pytest.fixture(autouse=True)
def _kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, "gpu")
    # Short contexts: most splits would be empty, and each takes the interpreter as long.
    monkeypatch.setattr("kernels.attention.gpu.SPLITS", 4)
    with gpu.hardware_arithmetic():
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    "precision",
    ["bfloat16", "int8", "int4"],
)
def test_X1_a_reply_is_the_same_cold_restored_and_branched(
    folder_of: FolderOf, picture: PictureOf, precision: Precision
) -> None:
    machine = Machine(load(folder_of("other"), precision=precision))
    chat: list[Message] = [system("Be brief."), user(words(24), picture(1), words(6, "q"))]
    cold = machine.ask(chat)
    assert len(cold.fed) > 4 and max(cold.fed) == 64 and cold.stats.images_encoded == 1
    restored = machine.ask(chat)
    assert restored.fed == () and restored.stats.restored_from == "slab"
    same(restored, cold)
    # From the picture's edge on, after another branch has been read.
    for node in machine.held(chat)[-2:]:
        machine.cache.tree.drop_checkpoint(node)
    machine.ask([system("Be brief."), user("Else.")])
    back = machine.ask(chat)
    assert 0 < back.reused < cold.evaluated and back.fed
    same(back, cold)


@pytest.mark.slow
def test_a_kernel_that_lies_is_not_used_and_the_contexts_are_others(
    folder_of: FolderOf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from kernels import gpu_ops
    from kernels.rms_norm.gpu import rms_norm

    def lies(inputs: Tensor, scale: Tensor, epsilon: float) -> Tensor:
        return 1.1 * rms_norm(inputs, scale, epsilon)

    names = ("convolve", "chunked_gated_delta_", "causal_attention", "rotate")
    plain = {name: getattr(PLAIN_OPS, name) for name in names}
    monkeypatch.setattr(gpu_ops, "GPU_OPS", replace(gpu_ops.GPU_OPS, **plain))
    honest = load(folder_of("text"))
    assert "is not used" not in caplog.text
    monkeypatch.setattr(gpu_ops, "GPU_OPS", replace(gpu_ops.GPU_OPS, rms_norm=lies))
    with caplog.at_level(logging.WARNING):
        mended = load(folder_of("text"))
    assert caplog.text.count("Kernel rms_norm is not used") == 1
    assert mended.info.fingerprint != honest.info.fingerprint
    asked = [user("What is it?")]
    answers = [Machine(each).ask(asked) for each in (mended, honest)]
    assert answers[0].ids == answers[1].ids
