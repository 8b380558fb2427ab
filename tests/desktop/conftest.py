"""A Qt event loop for coroutines, and whole windows that are closed again after each test."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import qasync
from PySide6.QtCore import QCoreApplication, QEvent, QLocale
from PySide6.QtWidgets import QApplication
from qasync import QEventLoop

from core.client.client import EngineClient
from desktop import theme
from desktop.app import App, GarbageCollector
from desktop.engine.engine_status import Phase
from desktop.store.folders import Folders
from desktop.window.window_parts import WindowParts
from tests.desktop.fake_engine import FakeEngine

# The offscreen platform's own screen is smaller than the window wants to be. Set before Qt starts.
if os.environ.get("QT_QPA_PLATFORM", "offscreen") == "offscreen":
    os.environ["QT_QPA_PLATFORM"] = (
        f"offscreen:configfile={Path(__file__).with_name('screen.json')}"
    )

# Numbers as the tests write them, whatever the system's locale is.
QLocale.setDefault(QLocale.c())
# Sentences too: Qt reads the preferred languages from here first.
os.environ["LANGUAGE"] = "en"

T = TypeVar("T")
# A bound on what would otherwise hang, not a measure of speed.
PATIENCE_S = 240.0
# Qt warnings that are no fault of ours, each with its reason.
HARMLESS = (
    # The offscreen platform has no window manager to give hints to.
    "This plugin does not support propagateSizeHints",
    "This plugin does not support raise",
    # Nor has it a tray.
    "No such signal QPlatformNativeInterface::systemTrayWindowChanged",
    # Nor does it grab the keyboard for a menu.
    "This plugin does not support grabbing the keyboard",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.qt_log_ignore(*HARMLESS))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in Qt's event loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }
    loop = pyfuncitem.funcargs["qloop"]
    assert isinstance(loop, Loop)
    loop.run(pyfuncitem.obj(**arguments))
    return True


class Loop:
    def __init__(self, loop: QEventLoop) -> None:
        self.loop = loop

    def run(self, work: Awaitable[T]) -> T:
        asyncio._set_running_loop(None)
        task = asyncio.ensure_future(asyncio.wait_for(work, PATIENCE_S), loop=self.loop)
        task.add_done_callback(lambda _task: self.loop.stop())
        self.loop.run_forever()
        # Between fixtures and the test, pytest-qt handles Qt's events: tasks go on there too.
        asyncio._set_running_loop(self.loop)
        return task.result()


@pytest.fixture(autouse=True)
def no_widget_left() -> Iterator[None]:
    """Delete the widgets of a test: every style set later would restyle them too."""
    yield
    for widget in QApplication.topLevelWidgets():
        widget.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def qloop(qapp: QApplication) -> Iterator[Loop]:
    qapp.setQuitOnLastWindowClosed(False)
    # Or each collection, that at the end too, would go through all that other tests left: 0.4 s.
    gc.collect()
    gc.freeze()
    garbage = GarbageCollector()
    loop = QEventLoop(qapp)
    asyncio.set_event_loop(loop)
    wanted: list[str] = []

    def executor_of_qasync() -> object:
        # Its ten QThreads outlive a loop that gets another executor, and end the process then.
        wanted.append("".join(traceback.format_stack(limit=8)))
        raise RuntimeError("qasync makes an executor of its own")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(qasync, "QThreadExecutor", executor_of_qasync)
        yield Loop(loop)
    asyncio._set_running_loop(None)
    left = {str(task.get_coro()) for task in asyncio.all_tasks(loop)}
    loop.close()
    asyncio.set_event_loop(None)
    garbage.close()
    assert left == set(), "tasks outlived the test"
    assert wanted == [], wanted[0]


def source_of(condition: Callable[[], object]) -> str:
    return inspect.getsource(condition) if inspect.isfunction(condition) else repr(condition)


async def until(condition: Callable[[], object], what: str = "") -> None:
    end = time.monotonic() + PATIENCE_S / 3
    while not condition():
        assert time.monotonic() < end, f"never came about: {what or source_of(condition)}"
        await asyncio.sleep(0.01)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    made = Folders.choose(str(tmp_path / "data"))
    made.create()
    return made


@pytest.fixture
def engine(qloop: Loop) -> FakeEngine:
    return FakeEngine()


OpenParts = Callable[[], Awaitable[WindowParts]]
OpenApp = Callable[..., Awaitable[App]]


async def ready(open_parts: OpenParts) -> WindowParts:
    parts = await open_parts()
    await until(lambda: parts.engine.status.phase is Phase.READY)
    return parts


async def ready_app(open_app: OpenApp) -> App:
    app = await open_app()
    await until(lambda: app.parts.engine.status.phase is Phase.READY)
    return app


@pytest.fixture
def open_parts(qloop: Loop, folders: Folders, engine: FakeEngine) -> Iterator[OpenParts]:
    """Begun, without a window; closed after the test."""
    opened: list[WindowParts] = []

    async def open_parts() -> WindowParts:
        parts = WindowParts(folders, engine)
        opened.append(parts)
        parts.begin()
        return parts

    yield open_parts
    for parts in opened:
        qloop.run(parts.close())


@pytest.fixture
def parts(qloop: Loop, open_parts: OpenParts) -> WindowParts:
    return qloop.run(open_parts())


@pytest.fixture
def open_app(
    qloop: Loop, qapp: QApplication, folders: Folders, engine: FakeEngine
) -> Iterator[OpenApp]:
    """Closed after the test if the test has not done it."""
    opened: list[App] = []
    theme.apply(qapp)

    async def open_app(other: EngineClient | None = None) -> App:
        app = App(folders, other or engine)
        opened.append(app)
        app.begin()
        return app

    yield open_app
    for app in opened:
        app.leave()
        qloop.run(_gone(app))
    qapp.processEvents()


@pytest.fixture
def app(qloop: Loop, open_app: OpenApp) -> App:
    return qloop.run(open_app())


async def _gone(app: App) -> None:
    await app.gone.wait()
    app.window.deleteLater()


@pytest.fixture
def dressed(qapp: QApplication) -> Iterator[QApplication]:
    theme.apply(qapp)
    theme.force(qapp, "light")
    yield qapp
    theme.force(qapp, "system")
