"""Pictures that clients send as base64, stored as files for the engine."""

from __future__ import annotations

import base64
import binascii
import contextlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path

from core.api.chat import ImagePart
from core.api.limits import PICTURE_FORMATS, picture_format
from core.client.blobs import BlobStore
from core.server.requests.refusals import Refusal

MOST_BYTES = 2**30
_LEAST_BYTES = 2**14  # that a file counts, so that their number is bounded too
_DATA = "data:"


class Pictures:
    """One file for equal pictures, until the process ends; those of open requests are never
    deleted. Thread-safe."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._blobs = BlobStore(folder)
        # What a killed process has left.
        self._blobs.clear()
        self._most_bytes = most_bytes
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._used: Counter[str] = Counter()
        self._lock = threading.Lock()

    def put_url(self, url: object, field: str) -> ImagePart:
        """Raises Refusal for any address but `data:`."""
        if not isinstance(url, str) or not url[: len(_DATA)].lower() == _DATA:
            raise Refusal(
                "Pictures must be sent as data URLs; this server opens no addresses and no files.",
                field,
                code="image_address_refused",
            )
        head, _, data = url.partition(",")
        if not head.lower().endswith(";base64"):
            raise Refusal("A data URL must be encoded as base64.", field)
        return self.put(data, field)

    def put(self, encoded: object, field: str) -> ImagePart:
        """Raises Refusal. The picture stays until `releasing` lets it go."""
        if not isinstance(encoded, str):
            raise Refusal("A picture must be a text in base64.", field)
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise Refusal("This picture is not valid base64.", field) from None
        if picture_format(data) is None:
            names = ", ".join(form.name for form in PICTURE_FORMATS)
            raise Refusal(f"This is not a picture in a known format ({names}).", field)
        with self._lock:
            try:
                digest, path = self._blobs.put(data)
            except OSError as error:
                words = f"This picture can't be stored: {error.strerror}."
                raise Refusal(words, field, status=503) from None
            self._sizes[digest] = max(len(data), _LEAST_BYTES)
            self._sizes.move_to_end(digest)
            self._used[digest] += 1
            self._drop_old()
        return ImagePart(digest=digest, path=str(path), name=field)

    @contextlib.contextmanager
    def releasing(self, parts: Iterable[ImagePart]) -> Iterator[None]:
        """Release a request's pictures at its end; `parts` may grow meanwhile."""
        try:
            yield
        finally:
            with self._lock:
                self._used.subtract(part.digest for part in parts)
                self._drop_old()

    def clear(self) -> None:
        self._blobs.clear()
        self._sizes.clear()

    def _drop_old(self) -> None:
        total = sum(self._sizes.values())
        for digest in list(self._sizes):
            if total <= self._most_bytes:
                return
            if self._used[digest] <= 0:
                total -= self._sizes.pop(digest)
                del self._used[digest]
                self._blobs.remove(digest)
