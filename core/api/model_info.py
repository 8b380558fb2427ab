"""What the window is told of a loaded model: what it is, how it was loaded, why so."""

from __future__ import annotations

from core.api.frozen import Frozen
from core.api.params import SamplingParams


class LoadFacts(Frozen):
    """How a model was loaded, in `seconds`, of which `packing_s` brought matrices into the layouts
    that the kernels read.

    `from_disk` says that quantised matrices were read as an earlier load had kept them. On disk all
    models' take `kept_bytes` now, and `kept_budget` at most. `slowed_by` is why replies are slower
    than they could be here. `kernels` names the backend, `processor` the widest instructions that
    the processor has.
    """

    seconds: float = 0.0
    packing_s: float = 0.0
    from_disk: bool = False
    kept_bytes: int = 0
    kept_budget: int = 0
    slowed_by: str = ""
    kernels: str = ""
    processor: str = ""


class TooLarge(Frozen):
    """A precision that did not fit, and the bytes that should have been free for it."""

    precision: str
    needed: int


class PrecisionChoice(Frozen):
    """Why a precision was chosen automatically.

    `needed` bytes should be free for it, with room for contexts, and `free` were: fewer where even
    the smallest does not fit. `too_large` would have been preferred, the most exact first.
    `faster_than` names the other exact precision where the speed measured on this machine decided
    between the two.
    """

    needed: int
    free: int
    too_large: tuple[TooLarge, ...] = ()
    faster_than: str = ""


class ModelInfo(Frozen):
    """What the window needs to know of the loaded model. Sizes in bytes, detail in tokens.

    `spliced_replies` is False where this model's template forces history to be tokenised again,
    with `history_note` saying why. The budgets are the defaults in bytes; a host budget below
    `smallest_host_budget` (a device budget below `smallest_device_budget`) is refused. `choice` is
    None where the user named the precision. `joins_steps` says that drafts can be checked, `mtp`
    that the model has an MTP head for them, `mtp_refused` why the one it has is not used.
    """

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
    kv_bytes_per_token: int
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
    joins_steps: bool = True
    mtp: bool = False
    mtp_refused: str = ""
