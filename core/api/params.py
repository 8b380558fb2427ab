"""User settings of a model, a request and the cache; None means the model's own value."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "published", "float32", "bfloat16", "int8", "int4"]

StopString = Annotated[str, Field(min_length=1, max_length=1024)]


class Frozen(BaseModel):
    """Base of wire messages: immutable, unknown fields rejected, bytes as base64."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64"
    )


class Settings(Frozen):
    """Values of another type (`true` for a number) are rejected too."""

    model_config = ConfigDict(strict=True)


class SamplingParams(Settings):
    """None stands for the model's generation_config.json.

    temperature 0 is greedy; top_k 0 means no limit, top_p 0 the likeliest token only. Repetition
    counts prompt and reply, the other penalties only the reply. A None seed is random.
    """

    temperature: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    # Logits divided by far less would overflow a float32.
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)] | None = None
    presence_penalty: Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    # Each is looked for at every token.
    stop: Annotated[tuple[StopString, ...], Field(max_length=256)] = ()


Effort = Literal["low", "medium", "high"]
Thinking = bool | Effort | None
"""True, False or an effort; None leaves thinking to the model's template."""

DraftMode = Literal["auto", "off", "lookup", "mtp", "both"]


class DraftSettings(Settings):
    """Speculative decoding, which changes no reply.

    "lookup" drafts what followed the same words before, "mtp" uses the MTP head. `tokens` is a
    fixed length.
    """

    mode: DraftMode = "auto"
    tokens: Annotated[int, Field(ge=1, le=7)] | None = None


class Probe(Settings):
    """Options for tests and `core.replay`.

    A probed request gets `Finished.prompt_ids`. `cancel_prefill_after_tokens` stops at the first
    cut at or after that many evaluated tokens. `logits_file` receives the float32 logits of the
    first sampled token, a file next to it (`.mtp`) the MTP head's for the following one.
    `draft_noise` is the share of drafted tokens to randomise; `skip_rollback` leaves rejected
    tokens in the context, which integrity checks must find.
    """

    stop_after_tokens: Annotated[int, Field(ge=1)] | None = None
    cancel_prefill_after_tokens: Annotated[int, Field(ge=0)] | None = None
    logits_file: str | None = None
    draft_noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    skip_rollback: bool = False


# Counters of bytes hold more than this, and number fields are exact up to it.
Bytes = Annotated[int, Field(ge=0, le=2**53)]


class CacheSettings(Settings):
    """Limits of the context cache, from the next request on.

    `count` bounds the recurrent checkpoints in memory; 0 turns them off. `interval` is in tokens,
    rounded up to a multiple of the grid. None is the default in `ModelInfo`. `restore`
    "when_faster" prefills again what would take at least twice as long to read from disk.
    """

    count: Annotated[int, Field(ge=0, le=256)] = 32
    interval: Annotated[int, Field(ge=1, le=32_768)] = 2_048
    device_bytes: Bytes | None = None
    host_bytes: Bytes | None = None
    disk_bytes: Bytes | None = None
    restore: Literal["always", "when_faster"] = "always"


class ModelSettings(Settings):
    """`context_length` None is the model's limit, or what memory allows; `max_image_tokens` None is
    1,024 on a CPU and 4,096 on a GPU, 0 the image processor's limit. `grid` is the spacing of cuts.
    `cache_folder` keeps contexts, embeddings and at most `weights_bytes` of quantised matrices
    (None: a default); without it nothing is on disk. `measure_kernels` chooses the fastest kernels
    and notes the choice there."""

    path: str
    device: Device = "auto"
    precision: Precision = "auto"
    context_length: Annotated[int, Field(ge=16)] | None = None
    max_image_tokens: Annotated[int, Field(ge=0)] | None = None
    grid: Annotated[int, Field(ge=64)] = 512
    cache_folder: str | None = None
    weights_bytes: Bytes | None = None
    measure_kernels: bool = False
