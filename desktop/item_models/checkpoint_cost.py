"""What the checkpoint settings cost with the loaded model, in words."""

from __future__ import annotations

from core.api.events import ModelInfo
from core.api.params import CacheSettings
from desktop.item_models.wording import count_of, format_bytes, format_count


def checkpoint_cost(cache: CacheSettings, model: ModelInfo | None) -> str:
    """Bytes of one checkpoint and of all; where they lie and what that leaves to read again."""
    if model is None:
        return "What they cost is known once a model is loaded."
    if not model.checkpoint_bytes:
        return "This model has no recurrent state, so it needs no checkpoints."
    if not cache.count:
        return "Switched off: what was read is read again."
    whole = format_bytes(cache.count * model.checkpoint_bytes)
    one = format_bytes(model.checkpoint_bytes)
    spacing = -(-cache.interval // model.grid) * model.grid
    return (
        f"{count_of(cache.count, 'checkpoint')} of {one} each take up to {whole} of memory. "
        f"They lie at the end of each message, at both edges of each picture, and in between every "
        f"{format_count(spacing)} tokens."
    )
