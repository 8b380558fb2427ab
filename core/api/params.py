"""What a user may set for a model, a request and the cache; None means 'the model's own'."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "float32", "bfloat16", "int8", "int4"]

StopString = Annotated[str, Field(min_length=1, max_length=1024)]


class Settings(BaseModel):
    """Base of all settings: immutable; a misspelt key and a value of another kind (`true` for a
    number) are errors rather than ignored or guessed at."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SamplingParams(Settings):
    """How the next token is drawn. A None comes from the model's generation_config.json.

    temperature 0 is greedy. top_k 0 means no limit, top_p 0 the likeliest token alone. Repetition
    counts prompt and reply (image placeholders excepted), presence and frequency the reply only. A
    seed left None is drawn fresh for the request. Without max_tokens the context length is the
    limit, and for formatted replies and thoughts those of `core.api.limits`.
    """

    temperature: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    # Logits divided by far less would no longer fit a float32.
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100, allow_inf_nan=False)] | None = None
    presence_penalty: Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    # Every token is looked at for each of them.
    stop: Annotated[tuple[StopString, ...], Field(max_length=256)] = ()


DraftMode = Literal["auto", "off", "lookup", "mtp", "both"]


class DraftSettings(Settings):
    """Whether several tokens are computed at once where some can be guessed; none of it changes a
    reply.

    `mode` "lookup" drafts what followed the same words before, "mtp" by the head that some models
    have for it, "both" by whichever is expected to gain more, as "auto" does. `tokens` is a fixed
    length of drafts.
    """

    mode: DraftMode = "auto"
    tokens: Annotated[int, Field(ge=1, le=7)] | None = None


class Probe(Settings):
    """What tests and `core.replay` ask of a request beside its reply; the window sends none.

    A probed request also gets `Finished.prompt_ids`. `stop_after_tokens` stops the reply as a user
    would, after that many sampled ids; `cancel_prefill_after_tokens` stops the prefill at the first
    cut at or after that many evaluated tokens. `logits_file` receives the float32 logits of the
    first sampled token; a file next to it with the suffix `.mtp` those of the MTP head for the
    token after it. `draft_noise` is the share of drafted tokens to replace by random ones;
    `skip_rollback` leaves rejected tokens in the context, which integrity checks must find.
    """

    stop_after_tokens: Annotated[int, Field(ge=1)] | None = None
    cancel_prefill_after_tokens: Annotated[int, Field(ge=0)] | None = None
    logits_file: str | None = None
    draft_noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    skip_rollback: bool = False


Bytes = Annotated[int, Field(ge=0)]


class CacheSettings(Settings):
    """What the context cache may keep; acts on the next request, without a reload.

    `count` bounds the recurrent checkpoints in memory, all chats together; 0 turns them off.
    `interval` is in tokens and is rounded up to a multiple of the grid. The byte budgets cover
    everything the cache holds on the device (a GPU's slab), in host memory (on a CPU the slab too)
    and on disk (0 keeps nothing there); None is the default that `ModelInfo` names. `restore`
    "when_faster" reads a prefix again where that is estimated at least twice as fast as fetching it
    from disk.
    """

    count: Annotated[int, Field(ge=0, le=256)] = 32
    interval: Annotated[int, Field(ge=1, le=32_768)] = 2_048
    device_bytes: Bytes | None = None
    host_bytes: Bytes | None = None
    disk_bytes: Bytes | None = None
    restore: Literal["always", "when_faster"] = "always"


class ModelSettings(Settings):
    """Which model to load and how.

    `context_length` None means the model's own limit or what memory allows. `max_image_tokens` None
    means 1,024 on a CPU and 4,096 on a GPU; 0 means only the processor's own limit applies.
    `grid` is the fixed spacing of canonical cuts. `cache_folder` is where contexts and picture
    embeddings survive a restart; None keeps nothing on disk. Quantised matrices are kept there too,
    of all models `weights_bytes` at most: None is a default, 0 keeps none. `measure_kernels` lets
    the engine try out what is fastest on this processor and remember it in `cache_folder`; without
    it the choice is the same everywhere.
    """

    path: str
    device: Device = "auto"
    precision: Precision = "auto"
    context_length: Annotated[int, Field(ge=16)] | None = None
    max_image_tokens: Annotated[int, Field(ge=0)] | None = None
    grid: Annotated[int, Field(ge=64)] = 512
    cache_folder: str | None = None
    weights_bytes: Bytes | None = None
    measure_kernels: bool = False
