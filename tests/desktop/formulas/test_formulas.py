from __future__ import annotations

import asyncio
import os
import signal
from typing import Literal

import pytest
from PySide6.QtGui import QColor, QImage, QTextCursor
from PySide6.QtWidgets import QApplication

from core.helper.process import Helper
from desktop import theme
from desktop.app import App
from desktop.chat.markdown.block_text import BlockText
from desktop.formulas import formulas as module
from desktop.formulas.formulas import MOST_IN_BLOCK, Drawing, Formulas, Source, formulas, source_of
from tests.desktop.conftest import OpenApp, until
from tests.desktop.fake_engine import FakeEngine
from tests.desktop.hands import ended, send
from tests.desktop.loop_watch import LoopWatch
from tests.sweeps import first_quick

PICTURE = "\ufffc"


def blocks(app: App) -> list[BlockText]:
    return app.window.page.transcript.row_widgets[-1].findChildren(BlockText)


def shown(app: App) -> str:
    return "\n".join(block.toPlainText() for block in blocks(app))


def copied(block: BlockText) -> str:
    block.selectAll()
    return block.createMimeDataFromSelection().text()


async def said(app: App, engine: FakeEngine, text: str) -> None:
    (await send(app, engine, "Hello")).finish(text)
    await ended(app)


async def test_a_formula_is_drawn_and_copied_as_it_was_written(
    app: App, engine: FakeEngine
) -> None:
    text = "So \U0001f600 $E = mc^2$ and \\(\\frac{a}{b}\\), for $5 or $10."
    await said(app, engine, text)
    await until(lambda: shown(app).count(PICTURE) == 2)
    [block] = blocks(app)
    assert block.toPlainText() == f"So \U0001f600 {PICTURE} and {PICTURE}, for $5 or $10."
    assert copied(block) == text
    cursor = block.textCursor()
    cursor.setPosition(6)
    cursor.movePosition(QTextCursor.MoveOperation.Right, QTextCursor.MoveMode.KeepAnchor, 7)
    block.setTextCursor(cursor)
    assert block.createMimeDataFromSelection().text() == "$E = mc^2$ and \\(\\frac{a}{b}\\)"


async def test_a_formula_that_streams_is_shown_as_written_until_it_closes(
    app: App, engine: FakeEngine
) -> None:
    asked = await send(app, engine, "Hello")
    asked.say("Then \\(x^2 + ")
    await until(lambda: "x^2" in shown(app))
    await asyncio.sleep(0.2)
    assert "\\(x^2 +" in shown(app)
    asked.say("1\\) holds")
    await until(lambda: shown(app) == f"Then {PICTURE} holds")
    asked.finish("Then \\(x^2 + 1\\) holds")
    await ended(app)


async def test_what_can_not_be_drawn_stays_as_written(app: App, engine: FakeEngine) -> None:
    await said(app, engine, "A $\\foo{x}^2$, and $x_1$")
    await until(lambda: shown(app) == f"A $\\foo{{x}}^2$, and {PICTURE}")


async def test_a_formula_of_its_own_is_centred_and_scrolls(app: App, engine: FakeEngine) -> None:
    wide = " + ".join(f"x_{{{number}}}^2" for number in range(60))
    await said(app, engine, f"First\n\n$$\nx^2\n$$\n\n\\[\n{wide}\n\\]\n")
    await until(lambda: shown(app).count(PICTURE) == 2)
    _, narrow, scrolling = blocks(app)
    left = narrow.cursorRect(QTextCursor(narrow.document())).left()
    assert left > narrow.width() // 3
    assert narrow.horizontalScrollBar().maximum() == 0
    await until(lambda: scrolling.horizontalScrollBar().maximum() > 100)
    assert copied(scrolling) == f"\\[\n{wide}\n\\]"
    # All of it is in view vertically.
    assert scrolling.viewport().height() >= scrolling.document().size().height()


async def test_what_is_selected_stays_so_when_formulas_are_drawn(
    app: App, engine: FakeEngine
) -> None:
    asked = await send(app, engine, "Hello")
    asked.say("A \U0001f600 $x^7$ and $y_1$, then important words\n\n")
    await until(lambda: "important" in shown(app))
    [block] = blocks(app)
    assert PICTURE not in block.toPlainText()
    found = block.document().find("important")
    block.setTextCursor(found)
    await until(lambda: shown(app).count(PICTURE) == 2)
    assert block.textCursor().selectedText() == "important"
    asked.finish("A \U0001f600 $x^7$ and $y_1$, then important words\n\n")
    await ended(app)


async def test_formulas_at_both_ends_of_a_line_are_no_wider_than_it(
    app: App, engine: FakeEngine
) -> None:
    wide = " + ".join(f"x_{{{number}}}^2" for number in range(40))
    await said(app, engine, f"\\({wide}\\) and \\({wide} + 1\\)")
    await until(lambda: shown(app) == f"{PICTURE} and {PICTURE}")
    [block] = blocks(app)
    assert block.document().idealWidth() <= block.viewport().width()


async def test_a_formula_is_painted_from_one_image(app: App, engine: FakeEngine) -> None:
    await said(app, engine, "$x_1$ and $y_2$")
    await until(lambda: shown(app).count(PICTURE) == 2)
    [block] = blocks(app)
    block.grab()
    made = module._image.cache_info().misses
    for _ in range(5):
        block.grab()
    assert module._image.cache_info().misses == made


async def test_a_formula_has_the_colour_of_the_text(
    app: App, engine: FakeEngine, qapp: QApplication
) -> None:
    await said(app, engine, "$x_1$ and $y_2$")
    await until(lambda: PICTURE in shown(app))
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        theme.force(qapp, scheme)
        [block] = blocks(app)
        picture = next(iter(block._document.pictures.values()))
        image = picture.image(theme.colours().text, 2.0)
        assert darkest_or_lightest(image, scheme) == QColor(theme.colours().text).lightness()


def darkest_or_lightest(image: QImage, scheme: str) -> int:
    solid = [
        image.pixelColor(x, y).lightness()
        for x in range(image.width())
        for y in range(image.height())
        if image.pixelColor(x, y).alpha() == 255
    ]
    return min(solid) if scheme == "light" else max(solid)


async def test_a_helper_that_dies_costs_nothing(app: App, engine: FakeEngine) -> None:
    await said(app, engine, "$x_1$")
    await until(lambda: PICTURE in shown(app))
    helper = formulas()._helper
    assert helper is not None and helper.pid is not None
    os.kill(helper.pid, signal.SIGKILL)
    await said(app, engine, "$x_2$ and $x_3$")
    await until(lambda: shown(app).count(PICTURE) == 2)


async def test_the_helper_ends_when_it_is_idle(open_app: OpenApp, engine: FakeEngine) -> None:
    formulas()._idle.setInterval(50)
    app = await open_app()
    await said(app, engine, "$x_4$ and")
    await until(lambda: PICTURE in shown(app))
    helper = formulas()._helper
    assert helper is not None
    await until(lambda: helper.pid is None)
    formulas()._idle.setInterval(module.IDLE_MS)


@pytest.mark.parametrize("kind", first_quick(["in one paragraph", "in paragraphs"]))
async def test_H8_formulas_that_are_all_drawn(
    app: App, engine: FakeEngine, qapp: QApplication, kind: str
) -> None:
    between = " and " if kind == "in one paragraph" else "\n\n"
    # A paragraph with more marks is shown as plain text.
    count = 400 if kind == "in one paragraph" else 600
    text = between.join(f"$\\frac{{a_{{{number}}}}}{{b}}$" for number in range(count))
    with LoopWatch() as watch:
        watch.doing = "showing formulas"
        await said(app, engine, text)
        await until(lambda: shown(app).count(PICTURE) > 75)
        watch.doing = "another width"
        app.window.resize(1000, 700)
        await asyncio.sleep(0.5)
    # Qt's own style sheet takes longer here, also without formulas.
    theme.force(qapp, "dark")
    if kind == "in one paragraph":
        with LoopWatch() as watch:
            watch.doing = "drawing formulas in another colour"
            await asyncio.sleep(0.5)
    theme.force(qapp, "system")


@pytest.mark.parametrize(
    ("written", "source"),
    [
        ("$x$", Source("x", False)),
        ("\\(x\\)", Source("x", False)),
        ("\\[ x \\]", Source("x", True)),
        ("$$\nx\n$$", Source("x", True)),
        ("$$x", None),
        ("$", None),
        ("$$", None),
        ("$$$$", None),
        ("\\( \\)", None),
        ("x", None),
    ],
)
def test_a_formula_between_its_delimiters(written: str, source: Source | None) -> None:
    assert source_of(written) == source


@pytest.mark.parametrize(
    "svg",
    [
        '<svg><image href="file:///etc/passwd"/></svg>',
        '<svg><path d="M 0 0" fill="url(file:///x)"/></svg>',
        "<svg><style>@import 'x'</style></svg>",
        '<svg><g><use xlink:href="x"/></g></svg>',
        "",
    ],
)
def test_a_drawing_with_anything_but_shapes_is_none(svg: str) -> None:
    assert module._checked(Source("x", True), (1, 1, 0), svg) is None


def test_a_drawing_that_would_take_long_to_show_is_none() -> None:
    svg = f"<svg>{'<g></g>' * 100_000}</svg>"
    assert module._checked(Source("x", True), (1, 1, 0), svg) is None


@pytest.mark.parametrize(
    "fields", [{}, {"sizes": 1}, {"sizes": [[1, 2]]}, {"sizes": [["a", 1, 1], [1, 1, 1]]}]
)
def test_nonsense_from_the_helper_costs_its_formulas(fields: dict[str, object]) -> None:
    class Liar(Helper):
        def ask(self, *_: object, **__: object) -> tuple[dict[str, object], bytes]:
            return fields, b"<svg></svg>"

    assert module._draw(Liar(2**20), [Source("x", True), Source("y", True)]) == [None, None]


def test_drawings_kept_are_bounded(qapp: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_IN_BLOCK * module.LARGEST_BYTES <= module.MOST_KEPT_BYTES
    monkeypatch.setattr(module, "MOST_KEPT_BYTES", 10_000)
    made = Formulas()
    made.begin()
    sources = [Source(str(number), False) for number in range(20)]
    drawings = [Drawing(source.latex, 1, 1, 0, "x" * 900) for source in sources]
    for _ in range(2):
        made.take(sources, drawings)
        assert (len(made._drawings), made._num_bytes) == (11, 9_900)
    made.close()


def test_without_a_window_nothing_is_drawn(qapp: object) -> None:
    made = Formulas()
    assert made.find(Source("x", True)) is None and not made.is_pending(Source("x", True))
