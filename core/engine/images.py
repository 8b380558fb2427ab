"""Pictures of a conversation: from file and digest to the segment of a prompt and to embeddings.

A picture's key is remembered by the SHA-256 of its file, so a picture that is only reused is
neither read nor decoded again; its pixels are made once more only when the tower has to run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Protocol

from torch import Tensor

from core import pulse
from core.api.chat import Conversation, ImagePart, UserMessage
from core.api.errors import ImageError, NoVisionError
from core.api.prompt import Image
from core.models.model import Model
from core.vision.decode import Decoder, read_picture
from core.vision.kinds import PictureProcessor
from core.vision.processor import ProcessedImage


def image_parts(conversation: Conversation) -> list[ImagePart]:
    """Every picture of a conversation in the order it is shown to the model."""
    return [
        part
        for message in conversation.messages
        if isinstance(message, UserMessage)
        for part in message.content
        if isinstance(part, ImagePart)
    ]


@contextmanager
def naming(part: ImagePart) -> Iterator[None]:
    """Put the file's name into an ImageError raised by what knows pixels only."""
    try:
        yield
    except ImageError as error:
        if part.called in error.message:
            raise
        raise type(error)(f"{part.called}: {error.message}") from error


class ImageCatalog:
    """The pictures one loaded model has met. Without a processor every picture is refused."""

    def __init__(self, processor: PictureProcessor | None) -> None:
        self._processor = processor
        self._decoder = Decoder()
        self._known: dict[str, Image] = {}
        self._fresh: dict[str, ProcessedImage] = {}

    def segments(self, parts: list[ImagePart], check: Callable[[], None]) -> list[Image]:
        """The image segment of each picture. Raises ImageError or NoVisionError, naming the
        file, and whatever `check` raises, which is asked before each step on a new picture."""
        return [self._segment(part, check) for part in parts]

    def take(self, part: ImagePart, check: Callable[[], None]) -> ProcessedImage:
        """Patches of a picture: those just made to learn its key, else from the file again."""
        return self._fresh.pop(part.digest, None) or self._process(part, check)

    def drop_patches(self) -> None:
        """Give back the patches that nobody took; a request calls it at its end."""
        self._fresh.clear()

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
        self._known[part.digest] = processed.image
        return processed

    def _segment(self, part: ImagePart, check: Callable[[], None]) -> Image:
        known = self._known.get(part.digest)
        if known is None:
            self._fresh[part.digest] = processed = self._process(part, check)
            known = processed.image
        return known


class Embeddings(Protocol):
    """Where embeddings are looked up and left."""

    def get(self, key: bytes) -> Tensor | None: ...

    def put(self, key: bytes, embedding: Tensor) -> None: ...


class _Nowhere:
    def get(self, key: bytes) -> Tensor | None:
        return None

    def put(self, key: bytes, embedding: Tensor) -> None:
        pass


class Pictures:
    """Embeddings for the pictures of one request.

    `num_encoded` counts the tower's calls, `encoded_tokens` and `seconds` what they made and took.
    """

    def __init__(
        self,
        model: Model,
        catalog: ImageCatalog,
        parts: list[ImagePart],
        embeddings: Embeddings,
        check: Callable[[], None],
    ) -> None:
        self._model = model
        self._catalog = catalog
        self._parts = {
            image.key: part
            for part, image in zip(parts, catalog.segments(parts, check), strict=True)
        }
        self._embeddings = embeddings
        self._check = check
        self.num_encoded = self.encoded_tokens = 0
        self.seconds = 0.0

    def beside(self) -> Pictures:
        """The same pictures, encoded anew and counted apart."""
        other = copy(self)
        other._embeddings = _Nowhere()
        return other

    def __call__(self, image: Image) -> Tensor:
        """Embeddings [tokens, hidden] of one picture, encoded unless they are held."""
        held = self._embeddings.get(image.key)
        if held is not None:
            return held
        began = time.perf_counter()
        processed = self._catalog.take(self._parts[image.key], self._check)
        patches = len(processed.pixels)
        with pulse.long_step(pulse.attention_s(patches, patches)):
            embedding = self._model.encode_image(
                processed.pixels.to(self._model.device),
                processed.patch_rows,
                processed.patch_columns,
                self._check,
            )
        self.num_encoded += 1
        self.encoded_tokens += image.num_tokens
        self.seconds += time.perf_counter() - began
        self._embeddings.put(image.key, embedding)
        return embedding
