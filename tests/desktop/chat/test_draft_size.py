"""The message's tokens while it is typed: counted by the engine, one text at a time."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QLabel

from core.api.stats import RequestStats
from desktop.chat.context_fill import GLUE_TOKENS, DraftTokens
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine, model_info, png
from tests.desktop.hands import drop, ended, files, find, send, type_in, words


async def test_tokens_and_what_is_left_follow_what_is_typed(
    open_app: OpenApp, engine: FakeEngine, tmp_path: Path
) -> None:
    app = await open_app()
    await until(lambda: words(app, "composerTokens") == "4,096 tokens left")
    type_in(app, "five words are typed here")
    left = 4096 - 5 - GLUE_TOKENS
    await until(lambda: words(app, "composerTokens") == f"5 tokens · {left:,} left")
    (tmp_path / "a.png").write_bytes(png())
    drop(app, files([tmp_path / "a.png"]))
    await until(lambda: words(app, "composerTokens") == f"9 tokens · {left - 4:,} left")
    stats = RequestStats(prompt_tokens=1000, reply_tokens=96, message_starts=(10, 500))
    (await send(app, engine, "one")).finish("Yes.", stats=stats)
    await ended(app)
    # The chat holds what the engine counted of it, and the field is empty.
    await until(lambda: words(app, "composerTokens") == "3,000 tokens left")
    type_in(app, "word " * 3500)
    over = 3500 + GLUE_TOKENS - 3000
    said = f"3,500 tokens, {over} more than the context has left"
    await until(lambda: words(app, "composerTokens") == said)
    assert find(app, QLabel, "composerTokens").property("class") == "warning small"


async def test_one_text_is_counted_at_a_time_and_then_the_last(
    open_app: OpenApp, engine: FakeEngine
) -> None:
    app = await open_app()
    await until(lambda: app.parts.engine.model is not None)
    size = app.parts.draft_size
    engine.may_count.clear()
    for number in range(1, 50):
        size.count("word " * number)
        await until(lambda: engine.counted)
    assert engine.counted == ["word "] and size.size is None
    engine.may_count.set()
    await until(lambda: size.size is not None)
    assert engine.counted == ["word ", "word " * 49]
    assert size.size == DraftTokens(49, 4096 - 49 - GLUE_TOKENS)


async def test_another_model_counts_anew(open_app: OpenApp, engine: FakeEngine) -> None:
    app = await open_app()
    await until(lambda: app.parts.engine.model is not None)
    app.parts.draft_size.count("some words")
    await until(lambda: app.parts.draft_size.size)
    engine.model_to_load = model_info(name="other", tokenizer="u" * 64)
    app.parts.settings.load()
    await until(lambda: len(engine.counted) == 2)
    await until(lambda: app.parts.draft_size.size)
