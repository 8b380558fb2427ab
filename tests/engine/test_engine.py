"""Loading, replacing and dropping models: what fails leaves what was there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from copy import copy as copy_of
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from core.api.chat import Conversation
from core.api.commands import CountTokens, DescribeImage, Generate, LoadModel, PrefillDraft
from core.api.errors import (
    BrokenConfigError,
    BrokenTokenizerError,
    BrokenWeightsError,
    ImageUnreadableError,
    MissingFileError,
    NoModelError,
    NotEnoughMemoryError,
    PromptTooLongError,
    RequestCancelled,
    WaymarkError,
)
from core.api.events import Event, Finished, Loading
from core.api.model_info import HEADROOM_BYTES
from core.api.params import ModelSettings, Precision
from core.engine import engine as engine_module
from core.engine import loaded as loaded_module
from core.engine.cancel import CancelFlag
from core.engine.engine import Engine
from core.engine.loaded import LoadedModel
from core.loading.precision import Chosen, choose_precision
from core.storage.store import DiskStore
from tests.promises.fixtures import FolderOf, LoadedOf, PictureOf
from tests.promises.machine import GREEDY, CountdownFlag, user


def load(engine: Engine, folder: Path, flag: CancelFlag | None = None) -> list[Event]:
    settings = ModelSettings(path=str(folder), device="cpu", precision="float32", grid=64)
    events: list[Event] = []
    engine.load(LoadModel(request=1, settings=settings), flag or CancelFlag(), events.append)
    return events


def ask(engine: Engine) -> Finished:
    conversation = Conversation(messages=(user("Hello"),))
    command = Generate(request=2, conversation=conversation, sampling=GREEDY)
    return engine.generate(command, CancelFlag(), lambda event: None)


@pytest.fixture
def copy(folder_of: FolderOf, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder_of("hybrid"), tmp_path / "copy"))


@pytest.fixture
def engine(folder_of: FolderOf) -> Engine:
    made = Engine()
    load(made, folder_of("hybrid"))
    return made


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def break_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")


def drop_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def widen_patches(folder: Path) -> None:
    """The tower's own config may leave its sizes out; a picture of 100 x 100 became 1.3 GiB."""
    for name, changes in (
        ("config.json", {"patch_size": None, "temporal_patch_size": None}),
        ("preprocessor_config.json", {"temporal_patch_size": 1000}),
    ):
        values = json.loads((folder / name).read_text())
        (values["vision_config"] if name == "config.json" else values).update(changes)
        (folder / name).write_text(json.dumps(values))


def drop_processor(folder: Path) -> None:
    (folder / "preprocessor_config.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (cut_weights, BrokenWeightsError),
        (break_tokenizer, BrokenTokenizerError),
        (drop_config, MissingFileError),
        (drop_processor, MissingFileError),
        (widen_patches, BrokenConfigError),
        (shutil.rmtree, MissingFileError),
    ],
)
def test_a_load_that_fails_keeps_the_model_before(
    engine: Engine, copy: Path, spoil: Callable[[Path], None], error: type[WaymarkError]
) -> None:
    before, answer = engine.loaded, ask(engine)
    spoil(copy)
    with pytest.raises(error):
        load(engine, copy)
    assert engine.loaded is before
    again = ask(engine)
    assert again.reply_ids == answer.reply_ids and again.stats.evaluated_tokens == 0


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_a_cancelled_load_keeps_the_model_before(engine: Engine, copy: Path, looks: int) -> None:
    before = engine.loaded
    with pytest.raises(RequestCancelled):
        load(engine, copy, CountdownFlag(looks))
    assert engine.loaded is before
    assert ask(engine).reason == "length"


def test_loading_says_how_far_it_is(copy: Path) -> None:
    steps = [event for event in load(Engine(), copy) if isinstance(event, Loading)]
    done = [step.done for step in steps]
    assert done == sorted(done) and done[-1] == steps[-1].total
    size = (copy / "model.safetensors").stat().st_size
    read = [step.done for step in steps].index(size)
    # Packing moves the bar too, a matrix at a time.
    assert steps[-1].total > size and len(steps) - read > 10


def test_only_memory_makes_the_model_before_go(
    engine: Engine, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, seen, on_disk = loaded_module.load, [], []

    def first_too_large(*arguments: object) -> object:
        seen.append(engine.loaded)
        on_disk.append(arguments[-1])
        if len(seen) == 1:
            raise NotEnoughMemoryError("both together are too much")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine_module, "load", first_too_large)
    load(engine, copy)
    assert seen[0] is not None and seen[1] is None
    # Beside a model that will go none is mapped: it may fit in its place.
    assert on_disk == [0, None]
    assert engine.loaded is not None and engine.loaded.info.name == "copy"


def no_memory(*_: object) -> LoadedModel:
    raise NotEnoughMemoryError("There is no memory.")


@pytest.mark.parametrize(
    ("free", "kept"),
    [(0, True), (HEADROOM_BYTES, False), (2**40, False)],
    ids=["not even alone", "in its place", "beside"],
)
def test_the_present_model_goes_only_where_the_new_one_fits_alone(
    engine: Engine, copy: Path, monkeypatch: pytest.MonkeyPatch, free: int, kept: bool
) -> None:
    monkeypatch.setattr(engine_module, "load", no_memory)
    monkeypatch.setattr(loaded_module, "available_bytes", lambda device: free)
    with pytest.raises(NotEnoughMemoryError):
        load(engine, copy)
    assert (engine.loaded is not None) is kept


@pytest.mark.parametrize(("most", "fits"), [(None, True), (2**40, True), (2**40 - 1, False)])
def test_the_present_model_goes_for_a_mapped_one_within_the_limit(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int | None, fits: bool
) -> None:
    settings = ModelSettings(path=str(copy), device="cpu", cache_folder=str(tmp_path / "store"))
    made, real = Engine(), choose_precision
    made.load(LoadModel(request=1, settings=settings), CancelFlag(), lambda event: None)
    assert made.loaded is not None

    def mapped(*given: Any, **named: Any) -> Chosen:
        return replace(real(*given, **named), num_bytes=2**40, mapped_bytes=2**40)

    monkeypatch.setattr(loaded_module, "choose_precision", mapped)
    limited = settings.model_copy(update={"weights_bytes": most})
    assert loaded_module.fits_without(made.loaded, limited, lambda: None) is fits
    made.unload()


def test_models_of_one_folder_share_its_store(copy: Path, tmp_path: Path) -> None:
    """Two stores on one folder would not know of each other, and some disks allow one only."""

    made = Engine()

    def load_in(folder: str) -> DiskStore:
        settings = ModelSettings(path=str(copy), device="cpu", precision="float32", grid=64)
        settings = settings.model_copy(update={"cache_folder": str(tmp_path / folder)})
        made.load(LoadModel(request=1, settings=settings), CancelFlag(), lambda event: None)
        assert made.loaded is not None and made.loaded.cache.disk.store is not None
        return made.loaded.cache.disk.store.blobs

    first = load_in("one")
    again = load_in("one")
    other = load_in("another")
    assert again is first and [first.closed, other.closed] == [True, False]
    other.close()
    opened = load_in("another")
    assert opened is not other and not opened.closed
    made.unload()
    assert [each.closed for each in (first, other, opened)] == [True] * 3


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_model_that_goes_hands_a_graphics_cards_memory_back(
    loaded_of: LoadedOf, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    handed_back: list[LoadedModel | None] = []
    base, engine = loaded_of("hybrid"), Engine()
    model = copy_of(base.model)
    monkeypatch.setattr(model, "device", torch.device(device))
    monkeypatch.setattr(engine, "loaded", replace(base, model=model))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: handed_back.append(engine.loaded))
    memory = torch.accelerator.memory
    monkeypatch.setattr(memory, "empty_host_cache", lambda: handed_back.append(engine.loaded))
    engine.unload()
    assert engine.loaded is None
    # The cache is emptied once nothing holds the model any more.
    assert handed_back == ([None, None] if device == "cuda" else [])


def test_another_model_reads_everything_itself(engine: Engine, copy: Path) -> None:
    first = ask(engine)
    config = json.loads((copy / "config.json").read_text())
    config["text_config"]["rms_norm_eps"] *= 1.0001
    (copy / "config.json").write_text(json.dumps(config))
    assert engine.loaded is not None
    before = engine.loaded.info.fingerprint
    load(engine, copy)
    assert engine.loaded.info.fingerprint != before
    again = ask(engine)
    assert again.stats.reused_tokens == 0 and again.reply_ids == first.reply_ids


def test_without_a_model_nothing_is_answered(engine: Engine) -> None:
    engine.unload()
    engine.unload()
    engine.clear_cache()
    with pytest.raises(NoModelError):
        ask(engine)


def test_pictures_are_described_with_and_without_a_model(
    engine: Engine, picture: PictureOf
) -> None:
    command = DescribeImage(request=3, image=picture(1, "tall"), thumbnail=16)
    with_model, without = engine.describe(command), Engine().describe(command)
    assert with_model.size == without.size == (64, 160)
    assert (with_model.tokens, with_model.resized) == (10, (64, 160))
    assert (without.tokens, without.resized) == (None, None)
    assert with_model.thumbnail == without.thumbnail and with_model.thumbnail[1:4] == b"PNG"


def test_a_picture_that_is_not_what_was_sent_is_not_described(
    engine: Engine, picture: PictureOf
) -> None:
    other = picture(1).model_copy(update={"digest": "0" * 64})
    with pytest.raises(ImageUnreadableError, match="has changed"):
        engine.describe(DescribeImage(request=3, image=other))


def test_another_processor_trusts_no_state_of_this_one(
    engine: Engine, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that moved to another machine, or a virtual one that woke up on another host."""
    assert engine.loaded is not None
    before = engine.loaded.info.fingerprint
    load(engine, copy)
    assert engine.loaded.info.fingerprint == before
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_tile": "another"})
    load(engine, copy)
    assert engine.loaded.info.fingerprint != before


def test_what_a_request_freed_goes_back_to_the_system(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    monkeypatch.setattr(engine_module, "release_to_system", lambda: given.append("back"))
    ask(engine)
    assert given == ["back"]
    conversation = Conversation(messages=(user("Hello"),))
    engine.prepare(PrefillDraft(request=3, conversation=conversation), CancelFlag())
    assert given == ["back"] * 2
    long = Conversation(messages=(user("Hello. " * 20_000),))
    with pytest.raises(PromptTooLongError):
        engine.generate(Generate(request=4, conversation=long), CancelFlag(), lambda event: None)
    assert given == ["back"] * 3


@pytest.mark.parametrize("precision", ["auto", "bfloat16"])
def test_a_model_tells_why_its_precision_was_chosen_unless_it_was_named(
    folder_of: FolderOf, precision: Precision
) -> None:
    settings = ModelSettings(
        path=str(folder_of("hybrid")), device="cpu", precision=precision, grid=64
    )
    info = loaded_module.load(settings, lambda done, total: None, lambda: None).info
    assert (info.choice is not None) == (precision == "auto")
    if info.choice is not None:
        assert info.choice.needed > 0 and info.choice.free > 0


def test_tokens_are_counted_as_a_message_is_read(engine: Engine) -> None:
    assert engine.loaded is not None
    text = "A red circle, and <|im_end|> as it is spelled."
    counted = engine.count_tokens(CountTokens(text=text))
    assert counted.tokens == len(engine.loaded.text._kit.tokenizer.ids(text))
    assert engine.count_tokens(CountTokens(text="")).tokens == 0
    engine.unload()
    with pytest.raises(NoModelError):
        engine.count_tokens(CountTokens(text=text))
