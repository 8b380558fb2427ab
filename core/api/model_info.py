"""Facts of a loaded model for the window."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from core.api.params import Frozen, SamplingParams
from core.api.reply_format import ToolSyntax

# The Hugging Face cache keeps Org/Name in `models--Org--Name/snapshots/<hash>`.
HUB_PREFIX = "models--"
SNAPSHOTS = "snapshots"
# What a load leaves free: activations of one chunk, with some room for the cache,
HEADROOM_BYTES = 256 * 2**20
# and on a processor a vocabulary of 248,320 tokens in the helper, which may not be read yet.
TEXT_BYTES = 256 * 2**20
# Rows of a window's buffer. Attention packs keys in chunks, counted from the first row. Long text
# is cut into segments of the other length by default.
WINDOW_CHUNK, WINDOW_SEGMENT = 256, 512
# A buffer that slides makes split points depend on checkpoints: it must save this much.
WINDOW_SAVING = 4
# An automatic choice leaves this share of a model's size free for contexts.
_ROOM = 1.1
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_GGUF_ENDING = re.compile(r"(?<=.)(-\d{5}-of-\d{5})?\.gguf$", re.IGNORECASE)


class KVSize(Frozen):
    """Bytes of keys and values that a context takes.

    Layers with a window of `window` tokens take `window_bytes_per_token` of `kv_bytes_per_token`;
    in a long context they keep `window_rows` only.
    """

    kv_bytes_per_token: _Count
    window_bytes_per_token: _Count = 0
    window: _Count = 0

    @property
    def window_rows(self) -> int:
        """A window in whole chunks, before a segment that begins anywhere in one."""
        return -(-self.window // WINDOW_CHUNK) * WINDOW_CHUNK + WINDOW_CHUNK + WINDOW_SEGMENT

    def slides(self, context: int) -> bool:
        return self.window > 0 and context > WINDOW_SAVING * self.window_rows

    def bytes_per_token(self, context: int) -> int:
        return self.kv_bytes_per_token - self.slides(context) * self.window_bytes_per_token

    def context_bytes(self, context: int) -> int:
        window = self.window_rows * self.window_bytes_per_token if self.slides(context) else 0
        return context * self.bytes_per_token(context) + window

    def context_within(self, num_bytes: int) -> int:
        each = max(1, self.kv_bytes_per_token)
        held, fixed = num_bytes // each, self.window_rows * self.window_bytes_per_token
        sliding = (num_bytes - fixed) // max(1, each - self.window_bytes_per_token)
        if self.slides(sliding):
            return sliding
        return min(held, WINDOW_SAVING * self.window_rows) if self.window else held

    def tail_bytes(self, context: int) -> int:
        """Bytes that a checkpoint needs of the tokens before it."""
        return (self.window - 1) * self.window_bytes_per_token if self.slides(context) else 0


class LoadFacts(Frozen):
    """A generated token reads `token_bytes` of the weights. `packing_s` of the `seconds` were spent
    on kernels' layouts. `from_disk`: quantised matrices came from an earlier load; all models' take
    `kept_bytes` of `kept_budget`. `slowed_by`: why replies are slower than they could be."""

    weight_bytes: int = 0
    token_bytes: int = 0
    seconds: float = 0.0
    packing_s: float = 0.0
    from_disk: bool = False
    kept_bytes: int = 0
    kept_budget: int = 0
    slowed_by: str = ""
    kernels: str = ""
    processor: str = ""


def with_room(num_bytes: int) -> int:
    """The free memory that an automatic choice asks for a model of `num_bytes`."""
    return int(num_bytes * _ROOM) + HEADROOM_BYTES


class TooLarge(Frozen):
    precision: str
    needed: int


class PrecisionChoice(Frozen):
    """Why a precision was chosen automatically.

    With room for contexts it needs `needed` bytes; `free` are fewer if even the smallest doesn't
    fit. `too_large` are the more exact ones. `faster_than` is the other exact precision if speed
    decided.
    """

    needed: int
    free: int
    too_large: tuple[TooLarge, ...] = ()
    faster_than: str = ""


class ModelInfo(KVSize):
    """`spliced_replies` is False where the template forces replies to be tokenised again;
    `history_note` says why. Budgets are defaults in bytes. `choice` is None where the user chose.
    `batch_invariant_steps`: drafts can be checked here. `mtp_refused`: why the MTP head is not
    used. `tools` is the syntax of calls."""

    name: str
    path: str
    family: str
    device: str
    precision: str
    num_parameters: int
    context_length: int
    model_context_length: int
    vision: bool
    thinking_switch: bool
    max_image_tokens: int
    grid: int
    checkpoint_bytes: int
    device_budget: int = 0
    host_budget: int = 0
    disk_budget: int = 0
    smallest_device_budget: int = 0
    smallest_host_budget: int = 0
    sampling: SamplingParams
    tokenizer: str
    fingerprint: str
    spliced_replies: bool = True
    history_note: str = ""
    load: LoadFacts = LoadFacts()
    choice: PrecisionChoice | None = None
    batch_invariant_steps: bool = True
    mtp: bool = False
    mtp_refused: str = ""
    tools: ToolSyntax | None = None


def hub_name(folder_name: str) -> str:
    if not folder_name.startswith(HUB_PREFIX):
        return ""
    return folder_name.removeprefix(HUB_PREFIX).replace("--", "/", 1)


# Lists of models ask for it at every change.
@lru_cache(maxsize=4_096)
def published_name(path: str) -> str:
    place = Path(path)
    name = _GGUF_ENDING.sub("", place.name)
    if place.parent.name == SNAPSHOTS:
        return hub_name(place.parent.parent.name) or name
    return hub_name(name) or name
