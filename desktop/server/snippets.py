"""Text to paste into programs so that they use the local server."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from core.api.model_info import ModelInfo
from desktop.i18n import tr


@dataclass(frozen=True, slots=True)
class Connection:
    """`address` is without a path; `key` may be a word that stands for it."""

    address: str
    key: str
    model: str
    context: int
    images: bool

    @classmethod
    def of(cls, port: int, key: str, model: ModelInfo | None) -> Connection:
        address = f"http://127.0.0.1:{port}"
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
