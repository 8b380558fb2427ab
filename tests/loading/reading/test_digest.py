"""Digesting behind the reader's back."""

from __future__ import annotations

import hashlib
import threading

from core.loading.reading.digest import BackgroundDigest


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("digest")]


def test_it_is_the_digest_of_all_pieces_though_they_are_written_over() -> None:
    expected, digest = hashlib.sha256(), BackgroundDigest(behind=1)
    pieces = [bytearray(100_000) for _ in range(2)]
    for number in range(50):
        piece = pieces[number % 2]
        piece[:] = bytes([number]) * len(piece)
        expected.update(piece)
        digest.update(memoryview(piece))
    assert digest.digest() == expected.digest()
    digest.update(b"more")
    digest.wait()
    digest.close()
    expected.update(b"more")
    assert digest.digest() == expected.digest()


def test_its_thread_ends_with_it() -> None:
    digest = BackgroundDigest(behind=3)
    digest.update(b"some")
    assert threads()
    digest.close()
    digest.close()
    assert not threads()
    assert digest.digest() == hashlib.sha256(b"some").digest()
