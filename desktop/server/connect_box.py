"""Texts to paste into programs that connect to the local server."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from PySide6.QtWidgets import QComboBox

from core.api.model_info import ModelInfo
from desktop import theme
from desktop.i18n import tr
from desktop.widgets.icon_button import CopyButton
from desktop.widgets.layouts import Frame, column, row
from desktop.widgets.plain import Label, named, text_box

SNIPPET_HEIGHT = 110


@dataclass(frozen=True, slots=True)
class Connection:
    """`address` has no path; `key` may be a word that stands for it."""

    address: str
    key: str
    model: str
    context: int
    images: bool

    @classmethod
    def of(cls, address: str, key: str, model: ModelInfo | None) -> Connection:
        if model is None:
            return cls(address, key, tr("MODEL"), 32_768, False)
        return cls(address, key, model.name, model.context_length, model.vision)


@dataclass(frozen=True, slots=True)
class Snippet:
    """`place` says where the text goes."""

    program: str
    place: str
    text: str


def snippets(to: Connection) -> tuple[Snippet, ...]:
    url, name, quoted = f"{to.address}/v1", json.dumps(to.model, ensure_ascii=False), shlex.quote
    capabilities = {
        "tools": True,
        "images": to.images,
        "parallel_tool_calls": True,
        "prompt_cache_key": False,
    }
    model = {"name": to.model, "max_tokens": to.context, "capabilities": capabilities}
    zed = {"openai_compatible": {"Waymark": {"api_url": url, "available_models": [model]}}}
    fields = tr("Base URL: {url}\nAPI key: {key}\nModel: {model}").format(
        url=url, key=to.key, model=to.model
    )
    return (
        Snippet(
            "Zed",
            tr("Into settings.json; enter the key {key} in Zed's settings of the provider.").format(
                key=to.key
            ),
            json.dumps({"language_models": zed}, indent=2, ensure_ascii=False),
        ),
        Snippet(
            "Continue",
            tr("Into ~/.continue/config.yaml, below models."),
            f"- name: Waymark\n  provider: openai\n  model: {name}\n  apiBase: {url}\n"
            f"  apiKey: {json.dumps(to.key)}\n  roles: [chat, edit, apply]",
        ),
        Snippet(
            "Cline",
            tr("Into Cline's settings, with OpenAI Compatible as the provider."),
            fields,
        ),
        Snippet(
            "Claude Code",
            tr("Into a terminal."),
            f"export ANTHROPIC_BASE_URL={to.address}\n"
            f"export ANTHROPIC_AUTH_TOKEN={quoted(to.key)}\n"
            f"export ANTHROPIC_MODEL={quoted(to.model)}\nclaude",
        ),
        Snippet(
            "Codex",
            tr("Into ~/.codex/config.toml; run it with the key in WAYMARK_API_KEY."),
            f'model = {name}\nmodel_provider = "waymark"\n\n[model_providers.waymark]\n'
            f'name = "Waymark"\nbase_url = "{url}"\nenv_key = "WAYMARK_API_KEY"\n'
            'wire_api = "responses"',
        ),
        Snippet(
            "Open WebUI",
            tr("Into its connections, as an OpenAI API."),
            fields,
        ),
    )


class ConnectBox(Frame):
    def __init__(self) -> None:
        super().__init__("serverConnect")
        self._snippets: tuple[Snippet, ...] = ()
        self._program = named(QComboBox(), "serverProgram", tr("Program"))
        self._program.currentIndexChanged.connect(self._show)
        self._place = Label(name="serverSnippetPlace", style="muted small", wraps=True)
        self._text = text_box("serverSnippet", tr("Text to paste"))
        self._text.setFixedHeight(theme.px(SNIPPET_HEIGHT))
        self._copy = named(CopyButton(tr("Copy this text")), "serverCopySnippet")
        self._copy.clicked.connect(lambda: self._copy.copy_text(self._text.toPlainText()))
        column(
            row(self._program, self._copy, None),
            self._place,
            self._text,
            of=self,
            margins=(12, 10, 12, 10),
            spacing=8,
        )

    def show_snippets(self, found: tuple[Snippet, ...]) -> None:
        if found == self._snippets:
            return
        self._snippets = found
        if not self._program.count():
            self._program.addItems([each.program for each in found])
        self._show()

    def _show(self) -> None:
        index = self._program.currentIndex()
        if 0 <= index < len(self._snippets):
            self._place.setText(self._snippets[index].place)
            self._text.setPlainText(self._snippets[index].text)
