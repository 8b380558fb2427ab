"""The format of a conversation script: which steps there are and what each may say.

It knows nothing of what a step does to a chat (`script_chats`) or to an engine.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from core.api.params import CacheSettings, SamplingParams
from core.api.reply_format import ReplyFormat


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ScriptText(_Part):
    """Text of a user message."""

    text: str


class ScriptImage(_Part):
    """A picture of a user message; the path is relative to the script."""

    image: Annotated[str, Field(min_length=1)]


Content = str | tuple[ScriptText | ScriptImage, ...]


class ScriptFormat(_Part):
    """The form of a reply: one of these."""

    json_schema: dict[str, Any] | bool | None = None
    json_: Literal[True] | None = Field(None, alias="json")
    regex: str | None = None
    choice: tuple[str, ...] | None = None
    lark: str | None = None

    @model_validator(mode="after")
    def _check(self) -> ScriptFormat:
        if len(self.model_fields_set) != 1 or not self.model_dump(exclude_none=True):
            raise ValueError("name one form")
        self.asked_for()
        return self

    def asked_for(self) -> ReplyFormat:
        """As the engine is asked for it."""
        (kind, value), *_ = self.model_dump(by_alias=True, exclude_unset=True).items()
        if kind == "choice":
            return ReplyFormat(kind="choice", choices=value)
        texts = {"json_schema": json.dumps(value), "json": ""}
        return ReplyFormat.model_validate({"kind": kind, "text": texts.get(kind, value)})


class _Step(_Part):
    chat: Annotated[str, Field(min_length=1)]


class _Answering(_Step):
    sampling: SamplingParams | None = None
    thinking: bool | None = None
    format: ScriptFormat | None = None
    stop_after_tokens: Annotated[int, Field(ge=1)] | None = None
    cancel_prefill_after_tokens: Annotated[int, Field(ge=0)] | None = None


class System(_Step):
    """Set a chat's system message, before anything else."""

    op: Literal["system"]
    content: str


class Send(_Answering):
    """Add a user message and answer it."""

    op: Literal["send"]
    content: Content


class Regenerate(_Answering):
    """Answer the last user message once more."""

    op: Literal["regenerate"]


class ContinueStep(_Answering):
    """Go on with the chat's last reply, one that was stopped or cut off."""

    op: Literal["continue"]


class Edit(_Answering):
    """Replace a user message, drop what follows and answer again."""

    op: Literal["edit"]
    message: Annotated[int, Field(ge=0)]
    content: Content


class Delete(_Step):
    """Drop a message and all after it."""

    op: Literal["delete"]
    from_: Annotated[int, Field(ge=0, alias="from")]


class Swipe(_Step):
    """Select one of the alternative replies to the last user message."""

    op: Literal["swipe"]
    reply: Annotated[int, Field(ge=0)]


class SettleStep(_Step):
    """Have the chat's last reply read as the template shows it in history."""

    op: Literal["settle"]
    thinking: bool | None = None


class DraftStep(_Step):
    """Have a draft read ahead. With `discard` it is taken back, and the chat goes on without it."""

    op: Literal["draft"]
    content: Content
    thinking: bool | None = None
    discard: bool = False


class Fork(_Step):
    """Begin chat `to` with the messages of this one up to and with `message`, as selected."""

    op: Literal["fork"]
    to: Annotated[str, Field(min_length=1)]
    message: Annotated[int, Field(ge=0)]


class ForgetStep(_Step):
    """Delete a chat and what only it used; its name may be used anew."""

    op: Literal["forget"]


class Side(_Answering):
    """Answer a message behind the chat, which doesn't change."""

    op: Literal["side"]
    content: Content


class Restart(_Part):
    """Quit, start again on the same data folder and load the same model; `kill` doesn't quit."""

    op: Literal["restart"]
    kill: bool = False


class LoadStep(_Part):
    """Load another model; the path of its folder is relative to the script."""

    op: Literal["load"]
    model: Annotated[str, Field(min_length=1)]


class SettingsStep(_Part):
    """Change what the cache may keep; acts on the next step. A null is the default again."""

    op: Literal["settings"]
    count: int | None = Field(None, validation_alias=AliasChoices("count", "checkpoints"))
    interval: int | None = None
    host_bytes: int | None = None
    device_bytes: int | None = None
    disk_bytes: int | None = None

    @model_validator(mode="after")
    def _check(self) -> SettingsStep:
        if not self.model_fields_set - {"op"}:
            raise ValueError("no setting is named")
        self.applied_to(CacheSettings())
        return self

    def applied_to(self, settings: CacheSettings) -> CacheSettings:
        """The settings with what this step names changed."""
        defaults = CacheSettings()
        named: dict[str, Any] = {
            name: getattr(defaults, name) if value is None else value
            for name in self.model_fields_set - {"op"}
            for value in (getattr(self, name),)
        }
        return CacheSettings.model_validate({**settings.model_dump(), **named})


ChatStep = (
    System
    | Send
    | Regenerate
    | ContinueStep
    | Edit
    | Delete
    | Swipe
    | SettleStep
    | DraftStep
    | Fork
    | ForgetStep
    | Side
)
Step = Annotated[ChatStep | Restart | LoadStep | SettingsStep, Field(discriminator="op")]
AnsweringStep = Send | Regenerate | ContinueStep | Edit | Side


class Script(_Part):
    """The whole script. A step's own `sampling` replaces the script's."""

    sampling: SamplingParams = SamplingParams()
    steps: tuple[Step, ...]
