"""Steps on another number of threads: only what is proven, put back whatever happens, same bits."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch import Tensor

from core.api.chat import Message
from core.api.errors import RequestCancelled
from core.api.params import SamplingParams
from core.engine import step_threads
from core.engine.loaded import LoadedModel
from core.engine.precision import PRECISIONS
from core.engine.recorded import StepRecorder
from core.engine.step_threads import StepThreads, open_step_threads
from core.engine.thread_choice import ThreadChoice
from core.engine.thread_proof import same_bits
from core.engine.threads import computing_with
from core.models.model import Model
from kernels.dispatch import REFERENCE
from kernels.linear.reference import PLAIN
from tests.promises.machine import CountdownFlag, Machine, same, user, words

LONG = SamplingParams(temperature=0, max_tokens=60, frequency_penalty=0.3)


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    with computing_with(2):
        yield
        assert torch.get_num_threads() == 2


class Scripted(ThreadChoice):
    """Wants what the test says, in turn, as far as it isn't refused."""

    def __init__(self, wanted: Sequence[int]) -> None:
        super().__init__((2, 1))
        self.wanted = wanted
        self.steps: list[int] = []

    def next(self, now: float) -> int:
        wanted = self.wanted[len(self.steps) % len(self.wanted)]
        return wanted if wanted in self._counts else self.full

    def took(self, count: int, seconds: float, now: float) -> None:
        assert torch.get_num_threads() == 2
        self.steps.append(count)


class Watched(Machine):
    """A machine that notes the threads of every forward, by the number of its rows."""

    def watch(self, threads: StepThreads) -> list[tuple[int, int]]:
        assert self.engine.loaded is not None
        # Forwards one by one: the threads of a recorded step are those of when it was recorded.
        loaded, steps = self.engine.loaded, StepRecorder(None)
        self.engine.loaded = replace(loaded, threads=threads, steps=steps)
        seen: list[tuple[int, int]] = []
        counting: Any = self.model
        counting._model = Watching(counting._model, seen)
        return seen


class Watching:
    """A model that notes rows and threads of every forward."""

    def __init__(self, model: Model, seen: list[tuple[int, int]]) -> None:
        self._model, self._seen = model, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(self, embeddings: Tensor, *rest: Any, **options: Any) -> Tensor:
        self._seen.append((len(embeddings), torch.get_num_threads()))
        return self._model.forward(embeddings, *rest, **options)


def of(model: LoadedModel, choice: ThreadChoice) -> StepThreads:
    return StepThreads(
        choice, 2_048, lambda count, check: same_bits(model.model, PLAIN.usual, count, 2_048, check)
    )


@pytest.mark.parametrize("precision", list(PRECISIONS))
@pytest.mark.parametrize("name", ["hybrid", "gemma3"])
def test_threads_that_change_at_every_step_change_no_bit(
    loaded_of: Callable[..., LoadedModel],
    caplog: pytest.LogCaptureFixture,
    precision: str,
    name: str,
) -> None:
    base = loaded_of(name, precision)
    chat: list[Message] = [user(words(90))]
    expected = Machine(base).ask(chat, sampling=LONG)
    machine, choice = Watched(base), Scripted((1, 2))
    seen = machine.watch(of(base, choice))
    found = machine.ask(chat, sampling=LONG)
    same(found, expected)
    steps = [threads for rows, threads in seen if rows == 1]
    if same_bits(base.model, PLAIN.usual, 1, 2_048, lambda: None):
        assert len(steps) > 20 and not caplog.records  # some models end a reply sooner
        assert steps == ([1, 2] * len(steps))[: len(steps)]
    else:
        assert set(steps) == {2} and len(caplog.records) == 1
    prefilled = {threads for rows, threads in seen if rows > 1}
    assert prefilled == {2}
    # What is read afterwards is read with the full number again, and leads to the same bits.
    chat += [found.reply, user("And " + words(20, "n"))]
    same(machine.ask(chat, sampling=LONG), Machine(base).ask(chat, sampling=LONG))


def test_a_count_with_other_bits_is_refused_once_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[int] = []

    def different(count: int, check: Callable[[], None]) -> bool:
        asked.append(count)
        return False

    choice = Scripted((1,))
    threads = StepThreads(choice, 100, different)
    for _ in range(5):
        with threads.step(10, lambda: None):
            assert torch.get_num_threads() == 2
    assert asked == [1] and choice.steps in ([2], [2] * 5)
    assert [record.getMessage() for record in caplog.records] == [
        "Generating never uses 1 threads: they give other bits than 2 here"
    ]


def test_a_proof_that_breaks_down_is_none(caplog: pytest.LogCaptureFixture) -> None:
    def broken(count: int, check: Callable[[], None]) -> bool:
        raise RuntimeError("not for this type")

    threads = StepThreads(Scripted((1,)), 100, broken)
    for _ in range(3):
        with threads.step(10, lambda: None):
            assert torch.get_num_threads() == 2
    assert len(caplog.records) == 1 and "could not be tried" in caplog.text


def test_a_context_past_the_proof_has_all_threads() -> None:
    choice = Scripted((1,))
    threads = StepThreads(choice, 100, lambda count, check: True)
    counts = []
    for context in (99, 100, 101, 100):
        with threads.step(context, lambda: None):
            counts.append(torch.get_num_threads())
    assert counts == [1, 1, 2, 1] and choice.steps == [1] * 3


@pytest.mark.parametrize("error", [RequestCancelled(""), MemoryError(), KeyboardInterrupt()])
def test_a_step_that_fails_puts_the_threads_back_and_is_not_counted(error: BaseException) -> None:
    choice = Scripted((1,))
    threads = StepThreads(choice, 100, lambda count, check: True)

    def fail() -> None:
        with threads.step(10, lambda: None):
            assert torch.get_num_threads() == 1
            raise error

    with pytest.raises(type(error)):
        fail()
    assert torch.get_num_threads() == 2 and choice.steps == []


def test_a_proof_that_is_cancelled_proves_nothing_and_is_tried_again() -> None:
    calls = []

    def cancelled_first(count: int, check: Callable[[], None]) -> bool:
        calls.append(count)
        check()
        return True

    def cancel() -> None:
        raise RequestCancelled("")

    threads = StepThreads(Scripted((1,)), 100, cancelled_first)
    with pytest.raises(RequestCancelled), threads.step(10, cancel):
        raise AssertionError("no step without a proof")
    with threads.step(10, lambda: None):
        assert torch.get_num_threads() == 1
    assert calls == [1, 1]


@pytest.mark.parametrize("looks", [7, 12, 19, 30])
def test_a_request_cancelled_amid_a_step_leaves_the_full_number(
    loaded_of: Callable[..., LoadedModel], looks: int
) -> None:
    base = loaded_of("hybrid", "int8")
    machine = Watched(base)
    machine.watch(StepThreads(Scripted((1,)), 2_048, lambda count, check: True))
    chat = [user("Hello.")]
    machine.ask(chat, sampling=LONG, flag=CountdownFlag(looks))
    assert torch.get_num_threads() == 2
    same(machine.ask(chat, sampling=LONG), Machine(base).ask(chat, sampling=LONG))


def test_a_proof_is_remembered_with_what_it_was_for(
    loaded_of: Callable[..., LoadedModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs: list[int] = []

    def counted(
        model: object, form: object, count: int, longest: int, check: Callable[[], None]
    ) -> bool:
        proofs.append(count)
        return count == 1

    monkeypatch.setattr(step_threads, "same_bits", counted)
    base = loaded_of("hybrid")
    settings = base.settings.model_copy(
        update={"measure_kernels": True, "cache_folder": str(tmp_path)}
    )

    def prove(*conditions: str, context: int = 2_048) -> bool:
        threads = open_step_threads(settings, base.model, REFERENCE, context, conditions)
        return threads._prove(1, lambda: None)

    assert prove("a", "int8") and prove("a", "int8")
    assert proofs == [1]
    for others in (("b", "int8"), ("a", "int4"), ("aint8", "")):
        assert prove(*others)
    assert prove("a", "int8", context=1_024)
    assert proofs == [1] * 5
    known = json.loads((tmp_path / "kernels.json").read_text())
    assert set(known.values()) == {"equal"} and len(known) == 5
    with computing_with(3):
        assert prove("a", "int8")
    assert proofs == [1] * 6


@pytest.mark.skipif(sys.platform != "linux", reason="other systems' C libraries keep nothing back")
def test_the_memory_of_a_proof_goes_back_to_the_system(
    loaded_of: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    stays: list[torch.Tensor] = []

    def made_up(*_: object) -> bool:
        """128 MB in blocks that the C library keeps for itself, with some in use among them."""
        blocks = [torch.ones(2**14) for _ in range(2_000)]
        stays.extend(blocks[::100])
        return True

    monkeypatch.setattr(step_threads, "same_bits", made_up)
    base = loaded_of("hybrid")
    settings = base.settings.model_copy(update={"measure_kernels": True, "cache_folder": None})
    threads = open_step_threads(settings, base.model, REFERENCE, 2_048, ())
    before = psutil.Process().memory_info().rss
    assert threads._prove(1, lambda: None)
    assert psutil.Process().memory_info().rss - before < 32 * 2**20


def test_nothing_adapts_unless_the_settings_let_it(loaded_of: Callable[..., LoadedModel]) -> None:
    base = loaded_of("hybrid")
    assert not base.settings.measure_kernels and base.threads._choice.settled
    settings = base.settings.model_copy(update={"measure_kernels": True})
    assert not open_step_threads(settings, base.model, REFERENCE, 2_048, ())._choice.settled
    with computing_with(1):
        assert open_step_threads(settings, base.model, REFERENCE, 2_048, ())._choice.settled
