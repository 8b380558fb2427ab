"""The format of a conversation script."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from core.api.params import CacheSettings, SamplingParams, Thinking
from core.api.reply_format import ReplyFormat


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ScriptText(_Part):
    text: str


class ScriptImage(_Part):
    """The path is relative to the script."""

    image: Annotated[str, Field(min_length=1)]


Content = str | tuple[ScriptText | ScriptImage, ...]


class ScriptFormat(_Part):
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
        (kind, value), *_ = self.model_dump(by_alias=True, exclude_unset=True).items()
        if kind == "choice":
            return ReplyFormat(kind="choice", choices=value)
        texts = {"json_schema": json.dumps(value), "json": ""}
        return ReplyFormat.model_validate({"kind": kind, "text": texts.get(kind, value)})


class _Step(_Part):
    chat: Annotated[str, Field(min_length=1)]


class _Answering(_Step):
    sampling: SamplingParams | None = None
    thinking: Thinking = None
    format: ScriptFormat | None = None
    stop_after_tokens: Annotated[int, Field(ge=1)] | None = None
    cancel_prefill_after_tokens: Annotated[int, Field(ge=0)] | None = None


class System(_Step):
    op: Literal["system"]
    content: str


class Send(_Answering):
    op: Literal["send"]
    content: Content


class Regenerate(_Answering):
    op: Literal["regenerate"]


class ContinueStep(_Answering):
    op: Literal["continue"]


class Edit(_Answering):
    op: Literal["edit"]
    message: Annotated[int, Field(ge=0)]
    content: Content


class Delete(_Step):
    op: Literal["delete"]
    from_: Annotated[int, Field(ge=0, alias="from")]


class Swipe(_Step):
    op: Literal["swipe"]
    reply: Annotated[int, Field(ge=0)]


class SettleStep(_Step):
    op: Literal["settle"]
    thinking: Thinking = None


class DraftStep(_Step):
    """`discard` continues the chat without the draft."""

    op: Literal["draft"]
    content: Content
    thinking: Thinking = None
    discard: bool = False


class Fork(_Step):
    op: Literal["fork"]
    to: Annotated[str, Field(min_length=1)]
    message: Annotated[int, Field(ge=0)]


class ForgetStep(_Step):
    op: Literal["forget"]


class Side(_Answering):
    op: Literal["side"]
    content: Content


class Restart(_Part):
    op: Literal["restart"]
    kill: bool = False


class LoadStep(_Part):
    """The path is relative to the script."""

    op: Literal["load"]
    model: Annotated[str, Field(min_length=1)]


class SettingsStep(_Part):
    """Settings of the steps that follow; null restores a default."""

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
    """A step's own `sampling` replaces the script's."""

    sampling: SamplingParams = SamplingParams()
    steps: tuple[Step, ...]
