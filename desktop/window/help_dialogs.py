"""The pages of the menu Help: keyboard shortcuts, and About with versions and licences.

The diagnostics contain nothing of any chat and no paths. Packages are asked for their versions
without importing them: the window's process never loads torch.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QDialog, QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from desktop.engine.engine_status import EngineStatus
from desktop.i18n import tr
from desktop.numbers import format_count
from desktop.widgets.layouts import scrolled
from desktop.widgets.plain import Button, Label

WIDTH, HEIGHT = 460, 520
# Licences of Waymark and the packages installed with it, for an installed app has no metadata. A
# test compares them with requirements.lock and the packages' metadata.
LICENCES = {
    "waymark": "Apache-2.0",
    "annotated-types": "MIT",
    "anyio": "MIT",
    "attrs": "MIT",
    "click": "BSD-3-Clause",
    "colorama": "BSD License",
    "filelock": "MIT",
    "fsspec": "BSD-3-Clause",
    "h11": "MIT",
    "hf-xet": "Apache-2.0",
    "httpcore2": "BSD-3-Clause",
    "httpx2": "BSD-3-Clause",
    "huggingface-hub": "Apache-2.0",
    "idna": "BSD-3-Clause",
    "jinja2": "BSD License",
    "jsonschema": "MIT",
    "jsonschema-specifications": "MIT",
    "llguidance": "MIT",
    "markdown-it-py": "MIT License",
    "markupsafe": "BSD-3-Clause",
    "mdurl": "MIT License",
    "mpmath": "BSD",
    "networkx": "BSD-3-Clause",
    "numpy": "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0",
    "packaging": "Apache-2.0 OR BSD-2-Clause",
    "pillow": "MIT-CMU",
    "platformdirs": "MIT",
    "psutil": "BSD-3-Clause",
    "pydantic": "MIT",
    "pydantic-core": "MIT",
    "pygments": "BSD-2-Clause",
    "pyside6-essentials": "LGPL-3.0-only OR GPL-2.0-only OR GPL-3.0-only",
    "pyyaml": "MIT",
    "qasync": "BSD-2-Clause",
    "referencing": "MIT",
    "rpds-py": "MIT",
    "safetensors": "Apache Software License",
    "setuptools": "MIT",
    "shiboken6": "LGPL-3.0-only OR GPL-2.0-only OR GPL-3.0-only",
    "sympy": "BSD",
    "tokenizers": "Apache Software License",
    "torch": (
        "Apache-2.0 AND Apache-2.0 WITH LLVM-exception AND BSD-2-Clause"
        " AND BSD-3-Clause AND BSL-1.0 AND MIT"
    ),
    "tqdm": "MPL-2.0 AND MIT",
    "truststore": "MIT",
    "typing-extensions": "PSF-2.0",
    "typing-inspection": "MIT",
}


def diagnostics(status: EngineStatus) -> dict[str, str]:
    """Names and values that a user can send with a bug report."""
    model = status.model
    load = model.load if model else None
    unknown = tr("not known")
    facts = {
        "Waymark": version("waymark"),
        "Python": platform.python_version(),
        "Qt": version("PySide6_Essentials"),
        "torch": version("torch"),
        tr("System"): platform.platform(),
        tr("Processor level"): (load.processor if load else "") or unknown,
        tr("Kernels"): (load.kernels if load else "") or unknown,
        tr("Engine"): status.words(),
    }
    if model is not None:
        facts[tr("Model")] = tr(
            "{family}, {parameters} parameters, {tokens} tokens of context"
        ).format(
            family=model.family,
            parameters=format_count(model.num_parameters),
            tokens=format_count(model.context_length),
        )
        if model.load.slowed_by:
            facts[tr("Slowed by")] = model.load.slowed_by
    return facts


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return tr("not known")


class _Page(QDialog):
    def __init__(self, title: str, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        content = QWidget()
        self.inside = QVBoxLayout(content)
        self.inside.setContentsMargins(0, 0, 8, 0)
        self.buttons = QHBoxLayout()
        self.buttons.addStretch(1)
        close = Button(tr("Close"), name="helpClose", spoken=tr("Close"))
        close.clicked.connect(self.close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 16, 20, 16)
        layout.setSpacing(12)
        layout.addWidget(Label(title, style="title"))
        layout.addWidget(scrolled(content, f"{name}Scroll"), 1)
        layout.addLayout(self.buttons)
        self.buttons.addWidget(close)
        self.resize(WIDTH, HEIGHT)

    def add_pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        grid = QGridLayout()
        grid.setHorizontalSpacing(18)
        grid.setVerticalSpacing(6)
        grid.setColumnStretch(1, 1)
        top = Qt.AlignmentFlag.AlignTop
        for line, (name, value) in enumerate(pairs):
            grid.addWidget(Label(name, style="label"), line, 0, top)
            grid.addWidget(Label(value, wraps=True, selectable=True), line, 1, top)
        self.inside.addLayout(grid)


class ShortcutsDialog(_Page):
    def __init__(self, actions: Sequence[QAction], parent: QWidget) -> None:
        super().__init__(tr("Keyboard shortcuts"), "shortcutsDialog", parent)
        native = QKeySequence.SequenceFormat.NativeText
        of_menus = [
            (each.shortcut().toString(native), each.text().replace("&", ""))
            for each in actions
            if not each.shortcut().isEmpty()
        ]
        self.add_pairs([*_other_keys(), *of_menus])
        self.inside.addStretch(1)


def _other_keys() -> Sequence[tuple[str, str]]:
    return (
        ("Enter", tr("Send the message")),
        ("Shift+Enter", tr("Start a new line")),
        ("Ctrl+A, Ctrl+C", tr("Select all text of a message, copy the selection")),
        ("Ctrl+V", tr("Paste text, picture files or a picture")),
        ("F2, Delete", tr("Rename or delete the selected chat")),
        ("Space, Delete", tr("Open a picture, remove it from the draft")),
        ("F, 1", tr("In the large picture: fit, actual size")),
        ("Left, Right", tr("In the large picture: previous, next")),
        ("Ctrl+C, Ctrl+S", tr("In the large picture: copy, save")),
    )


class AboutDialog(_Page):
    def __init__(self, facts: dict[str, str], parent: QWidget) -> None:
        super().__init__(tr("About Waymark"), "aboutDialog", parent)
        self._facts = facts
        about = tr("Chat with a model on this computer. Nothing you write leaves it.")
        self.inside.addWidget(Label(about, wraps=True))
        self.add_pairs(list(facts.items()))
        self.inside.addWidget(Label(tr("Licences"), style="heading"))
        self.add_pairs(list(LICENCES.items()))
        self.inside.addStretch(1)
        words = tr("Copy diagnostics")
        self._copy = Button(words, name="copyDiagnostics", spoken=words)
        self._copy.clicked.connect(self._on_copy)
        self.buttons.insertWidget(1, self._copy)

    def _on_copy(self) -> None:
        text = "\n".join(f"{name}: {value}" for name, value in self._facts.items())
        QGuiApplication.clipboard().setText(text)
        self._copy.set_words(tr("Copied"))
