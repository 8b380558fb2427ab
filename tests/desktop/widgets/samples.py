from __future__ import annotations

from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtGui import QColor, QImage, QImageWriter, QPainter

from core.api.model_info import ModelInfo
from core.api.params import SamplingParams
from core.api.stats import CacheBytes, ContextPart, HeldCheckpoint, Miss, Place, RequestStats
from desktop.context.context import ContextView
from desktop.context.strip import Strip

MIB = 1024 * 1024


def second_turn() -> RequestStats:
    """A question about an image that was read a turn before."""
    return RequestStats(
        prompt_tokens=1260,
        prompt_positions=268,
        reused_tokens=1204,
        evaluated_tokens=56,
        reply_tokens=310,
        images_in_prompt=1,
        images_encoded=0,
        restored_from="memory",
        restored_at=Place(token=1204, position=212),
        checkpoints=tuple(
            HeldCheckpoint(token=token, position=token, bytes=150 * MIB)
            for token in (22, 1021, 1204)
        ),
        checkpoints_held=12,
        ttft_s=0.41,
        prefill_s=0.3,
        decode_tokens_per_s=28.3,
        bytes=CacheBytes(
            kv=212 * MIB,
            slab=90 * MIB,
            checkpoints=12 * 150 * MIB,
            embeddings=8 * MIB,
            disk=1400 * MIB,
            host_budget=6000 * MIB,
            disk_budget=20_000 * MIB,
        ),
        parts=(
            ContextPart(start=0, end=22, kind="text", source="reused", on_disk=True),
            ContextPart(
                start=22, end=1021, kind="image", source="reused", tier="memory", on_disk=True
            ),
            ContextPart(
                start=1021, end=1204, kind="text", source="reused", tier="disk", on_disk=True
            ),
            ContextPart(start=1204, end=1260, kind="text", source="evaluated"),
            ContextPart(start=1260, end=1570, kind="text", source="reply"),
        ),
        context_length=4096,
        seed=7,
    )


def first_words() -> RequestStats:
    """Thirty tokens in a context of a quarter of a million."""
    return RequestStats(
        prompt_tokens=26,
        evaluated_tokens=26,
        reply_tokens=4,
        ttft_s=0.06,
        parts=(
            ContextPart(start=0, end=26, kind="text", source="evaluated"),
            ContextPart(start=26, end=30, kind="text", source="reply"),
        ),
        context_length=262_144,
    )


def long_chat() -> RequestStats:
    """Many messages and four images, of which one was evicted and read again."""
    parts = []
    start = 0
    for turn in range(24):
        for kind, size in (("image", 999), ("text", 38), ("text", 240 + 20 * turn)):
            if kind == "image" and turn % 6:
                continue
            source = "reused" if turn < 18 else "evaluated"
            parts.append(
                ContextPart.model_validate(
                    {"start": start, "end": start + size, "kind": kind, "source": source}
                )
            )
            start += size
    reused = sum(part.end - part.start for part in parts if part.source == "reused")
    parts.append(ContextPart(start=start, end=start + 420, kind="text", source="reply"))
    return RequestStats(
        prompt_tokens=start,
        reused_tokens=reused,
        evaluated_tokens=start - reused,
        reply_tokens=420,
        images_in_prompt=4,
        images_encoded=1,
        restored_from="disk",
        restored_at=Place(token=reused, position=reused),
        checkpoints=tuple(
            HeldCheckpoint(token=part.end, position=part.end, bytes=150 * MIB)
            for part in parts[:40:3]
        ),
        checkpoints_held=32,
        miss=Miss(reason="evicted", token=reused, message=36),
        ttft_s=6.25,
        decode_tokens_per_s=9.42,
        bytes=CacheBytes(checkpoints=32 * 150 * MIB),
        parts=tuple(parts),
        context_length=32_768,
    )


def model_info() -> ModelInfo:
    return ModelInfo(
        name="Demo",
        path="demo",
        family="qwen3_5",
        device="cpu",
        precision="float32",
        num_parameters=1_000_000,
        context_length=32_768,
        model_context_length=262_144,
        vision=True,
        thinking_switch=True,
        max_image_tokens=999,
        grid=512,
        checkpoint_bytes=150 * MIB,
        kv_bytes_per_token=4096,
        sampling=SamplingParams(),
        tokenizer="demo",
        fingerprint="demo",
    )


def view(stats: RequestStats | None, done: int | None = None) -> ContextView:
    strip = Strip.of_request(stats, done) if stats else Strip()
    return ContextView(stats, done, strip, stats.bytes if stats else None, model_info())


def landscape(width: int = 480, height: int = 360) -> QImage:
    """A sky and a hill, painted so that no picture file is needed."""
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(QColor("#7fb2d9"))
    painter = QPainter(image)
    painter.fillRect(0, height // 2, width, height, QColor("#3f6560"))
    painter.end()
    return image


def png(image: QImage) -> bytes:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    assert QImageWriter(buffer, QByteArray(b"png")).write(image)
    return bytes(buffer.data().data())


REPLY = """There are **three peaks** in the picture, and the sun stands above the *right* half.

| Peak | Where | Tone |
|------|-------|-----:|
| back | centre | pale |
| left | edge | mid |
| front | right | dark |

To measure them yourself, sample one column per peak with `numpy`:

```python
import numpy as np

# Rows from the top until the colour is no longer the sky's.
def height_of(column: np.ndarray, tolerance: float = 12.0) -> int:
    changed = np.abs(np.diff(column.mean(axis=1))) > tolerance
    return len(column) - int(changed.argmax())

print(f"front peak: {height_of(pixels[:, 384])} px")
```

1. Load the picture with [Pillow](https://python-pillow.org).
2. Call `height_of` for each column:
   - nearest peaks first,
   - then the pale one.

More is written at https://numpy.org/doc, in **Basics**.

> Colours near the horizon mislead: haze makes far peaks look lower than they are.
"""
