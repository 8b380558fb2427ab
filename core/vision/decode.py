"""Decoding pictures in a limited helper process; the formats are in core.helper.pictures."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.api.errors import ImageEmptyError, ImageError, ImageTooLargeError, ImageUnreadableError
from core.api.limits import MAX_PICTURE_BYTES
from core.helper.process import Helper, HelperFailedError

# The largest allowed picture with transparency takes 1.3 GiB on its way to RGB.
MEMORY_BYTES = 2 * 2**30
# The largest allowed PNG is decoded in 9 s on a busy AMD EPYC (Zen 4); a resize of it takes less.
TIME_LIMIT_S = 15.0


def read_picture(path: Path, digest: str, name: str = "") -> bytes:
    """Raises ImageError unless the file has the SHA-256 `digest` (hex)."""
    name = name or path.name
    try:
        if not path.is_file():
            raise ImageUnreadableError(f"{name} doesn't exist any more, or isn't a file.")
        with path.open("rb") as file:
            data = file.read(MAX_PICTURE_BYTES + 1)
    except OSError as error:
        raise ImageUnreadableError(f"{name} can't be opened: {error.strerror}.") from error
    if len(data) > MAX_PICTURE_BYTES:
        raise ImageTooLargeError(f"{name} has more than {MAX_PICTURE_BYTES >> 20} MiB.")
    if hashlib.sha256(data).hexdigest() != digest:
        raise ImageUnreadableError(f"{name} has changed since it was added to the chat.")
    if not data:
        raise ImageEmptyError(f"{name} is an empty file.")
    return data


class PictureDecoder:
    """One picture at a time, in a process of its own. Thread-safe."""

    def __init__(self) -> None:
        self._helper = Helper(MEMORY_BYTES)
        self._lock = threading.RLock()

    @contextmanager
    def open(
        self, data: bytes, name: str, check: Callable[[], None] | None = None
    ) -> Iterator[DecodedPicture]:
        """Errors call the picture `name`. Raises ImageError."""
        with self._lock:
            picture = DecodedPicture(self._helper, name, check)
            picture.open(data)
            try:
                yield picture
            finally:
                picture.close()


class DecodedPicture:
    """In the helper's memory until another one is opened."""

    def __init__(self, helper: Helper, name: str, check: Callable[[], None] | None) -> None:
        self._helper = helper
        self._name = name
        self._check = check
        self.size = (0, 0)

    def open(self, data: bytes) -> None:
        fields, _ = self._ask("picture.open", {"name": self._name}, data)
        width, height = fields["size"]
        self.size = (int(width), int(height))

    def close(self) -> None:
        with contextlib.suppress(HelperFailedError):
            if self._helper.pid is not None:
                self._helper.ask("picture.close", {}, seconds=TIME_LIMIT_S)

    def resized(self, width: int, height: int, resample: int) -> bytes:
        """RGB bytes [height, width, 3], by a filter of Pillow's. Raises ImageError."""
        fields = {"width": width, "height": height, "resample": resample}
        _, data = self._ask("picture.resize", fields)
        if len(data) != 3 * width * height:
            raise self._failed("ended")
        return data

    def thumbnail(self, longest: int) -> bytes:
        """A PNG; small pictures keep their size."""
        return self._ask("picture.thumbnail", {"longest": longest})[1]

    def fit(self, width: int, height: int) -> tuple[tuple[int, int], bytes]:
        fields, data = self._ask("picture.fit", {"width": width, "height": height})
        fitted = (int(fields["size"][0]), int(fields["size"][1]))
        if len(data) != 4 * fitted[0] * fitted[1]:
            raise self._failed("ended")
        return fitted, data

    def _ask(
        self, task: str, fields: dict[str, Any], data: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        try:
            return self._helper.ask(task, fields, data, seconds=TIME_LIMIT_S, check=self._check)
        except HelperFailedError as failure:
            raise self._failed(failure.reason) from None

    def _failed(self, reason: str) -> ImageError:
        if reason == "time":
            return ImageTooLargeError(
                f"{self._name} takes longer than {TIME_LIMIT_S:.0f} seconds to decode, so it was "
                "stopped."
            )
        if reason == "memory":
            return ImageTooLargeError(f"There is not enough memory to open {self._name}.")
        if reason == "started":
            return ImageUnreadableError(
                f"{self._name} can't be decoded: the process for it could not be started."
            )
        return ImageUnreadableError(f"{self._name} is damaged: decoding it failed.")
