"""Pictures of a conversation, from files to prompt segments and embeddings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path

import torch
from torch import Tensor

from core import watchdog
from core.api.chat import ImagePart
from core.api.errors import ImageError, NoVisionError
from core.api.prompt import Image
from core.cache.embeddings import EmbeddingCache, SideEmbeddings
from core.models.decoder import Decoder
from core.vision.decode import DecodedPicture, PictureDecoder, read_picture
from core.vision.processor import PictureProcessor, ProcessedImage


@contextmanager
def naming(part: ImagePart) -> Iterator[None]:
    try:
        yield
    except ImageError as error:
        if part.called in error.message:
            raise
        raise type(error)(f"{part.called}: {error.message}") from error


# Decoded pictures kept for the next request: five of a million pixels.
DESCRIBED_BYTES = 16 * 2**20
# Pictures whose segments are known without their files: a picture's takes up to 100 KB.
MOST_KNOWN = 1_024


class ImageCatalog:
    """Without a processor every picture is refused."""

    def __init__(self, processor: PictureProcessor | None) -> None:
        self._processor = processor
        self._decoder = PictureDecoder()
        self._known: dict[str, Image] = {}
        self._fresh: dict[str, ProcessedImage] = {}
        self._described: dict[str, ProcessedImage] = {}
        self._lock = threading.Lock()  # pictures are described on another thread

    def learn(self, part: ImagePart, picture: DecodedPicture) -> None:
        """Raises ImageError."""
        if self._processor is None or part.digest in self._known:
            return
        with naming(part):
            processed = self._processor.process(picture)
        with self._lock:
            self._known[part.digest] = processed.image
            self._drop_oldest()
            self._described[part.digest] = processed
            while sum(len(each.data) for each in self._described.values()) > DESCRIBED_BYTES:
                del self._described[next(iter(self._described))]

    def segments(self, parts: list[ImagePart], check: Callable[[], None]) -> list[Image]:
        """Raises ImageError, NoVisionError."""
        return [self._segment(part, check) for part in parts]

    def processed(self, part: ImagePart, check: Callable[[], None]) -> ProcessedImage:
        held = self._fresh.get(part.digest) or self._described.get(part.digest)
        return held or self._process(part, check)

    def encoded(self, part: ImagePart) -> None:
        self._fresh.pop(part.digest, None)
        with self._lock:
            self._described.pop(part.digest, None)

    def drop_described(self) -> None:
        """They may belong to a deleted chat."""
        with self._lock:
            self._described.clear()

    def drop_fresh(self) -> None:
        self._fresh.clear()
        with self._lock:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        while len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]

    def _process(self, part: ImagePart, check: Callable[[], None]) -> ProcessedImage:
        if self._processor is None:
            raise NoVisionError(
                "The conversation holds a picture, and this model reads text only. "
                "Take the picture out or load a model with vision."
            )
        check()
        data = read_picture(Path(part.path), part.digest, part.called)
        with self._decoder.open(data, part.called, check) as picture, naming(part):
            processed = self._processor.process(picture)
        with self._lock:
            self._known[part.digest] = processed.image
        return processed

    def _segment(self, part: ImagePart, check: Callable[[], None]) -> Image:
        with self._lock:
            known = self._known.pop(part.digest, None)
            if known is not None:  # the newest now
                self._known[part.digest] = known
                return known
        self._fresh[part.digest] = processed = self._process(part, check)
        return processed.image


class Pictures:
    def __init__(
        self,
        model: Decoder,
        catalog: ImageCatalog,
        parts: list[ImagePart],
        embeddings: EmbeddingCache | SideEmbeddings,
        check: Callable[[], None],
    ) -> None:
        self._model = model
        self._catalog = catalog
        self.segments = catalog.segments(parts, check)
        self._parts = {image.key: part for part, image in zip(parts, self.segments, strict=True)}
        self._embeddings = embeddings
        self._check = check
        self.num_encoded = self.encoded_tokens = 0
        self.seconds = 0.0

    def recomputed(self) -> Pictures:
        other = copy(self)
        other._embeddings = SideEmbeddings(None)
        return other

    def __call__(self, image: Image) -> Tensor:
        held = self._embeddings.get(image.key)
        if held is not None:
            return held
        began = time.perf_counter()
        part = self._parts[image.key]
        processed = self._catalog.processed(part, self._check)
        embedding = self._encoded(processed)
        self.num_encoded += 1
        self.encoded_tokens += image.num_tokens
        self.seconds += time.perf_counter() - began
        self._embeddings.put(image.key, embedding)
        self._catalog.encoded(part)
        return embedding

    def _encoded(self, processed: ProcessedImage) -> Tensor:
        model, rows = self._model, []
        sizes = [grid.num_patches for grid in processed.grids]
        for grid, pixels in zip(processed.grids, processed.pixels.split(sizes), strict=True):
            if grid.before:
                rows.append(model.embed(torch.tensor(grid.before, device=model.device)))
            with watchdog.step_limit(watchdog.attention_limit_s(len(pixels), len(pixels))):
                patches = pixels.to(model.device)
                rows.append(model.encode_image(patches, grid.rows, grid.columns, self._check))
            if grid.after:
                rows.append(model.embed(torch.tensor(grid.after, device=model.device)))
        return rows[0] if len(rows) == 1 else torch.cat(rows)
