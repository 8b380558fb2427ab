"""Mutants of pictures of every format: each ends in a name or in pixels, and costs a helper."""

from __future__ import annotations

import io
from typing import Any

import pytest

from core.api.errors import ImageError
from core.helper.pictures import FORMATS
from core.vision import decode
from core.vision.decode import PictureDecoder
from tests.hostile.counts import each_of
from tests.hostile.mutation import mutated_bytes
from tests.vision.pictures import HEIC, noise


def picture(kind: str, variant: int) -> bytes:
    """A small picture in a way of its format."""
    options: dict[str, list[dict[str, Any]]] = {
        "PNG": [{}, {"optimize": True}],
        "JPEG": [{}, {"progressive": True}, {"quality": 5, "subsampling": 2}],
        "WEBP": [{}, {"lossless": True}],
        "BMP": [{}],
        "GIF": [{}, {"save_all": True, "append_images": [noise(20, 20, seed=3)]}],
        "AVIF": [{}, {"save_all": True, "append_images": [noise(20 + variant % 3, 20, seed=3)]}],
        "TIFF": [{}, *({"compression": each} for each in ("tiff_lzw", "jpeg", "tiff_deflate"))],
    }
    if kind == "HEIF":
        files = sorted(HEIC.iterdir())
        return files[variant % len(files)].read_bytes()
    modes = {"PNG": ["RGB", "RGBA", "L", "P", "1"], "TIFF": ["RGB", "L"], "GIF": ["P", "L"]}
    ways, kinds = options[kind], modes.get(kind, ["RGB"])
    image = noise(20 + variant % 3, 20, "RGB").convert(kinds[variant % len(kinds)])
    data = io.BytesIO()
    image.save(data, kind, **ways[variant % len(ways)])
    return data.getvalue()


@each_of(1_000, again=True)
@pytest.mark.parametrize("kind", FORMATS)
def test_mutants_of_pictures_cost_their_helper_at_most(
    kind: str, watched: list[int], monkeypatch: pytest.MonkeyPatch, seeds: range
) -> None:
    monkeypatch.setattr(decode, "TIME_LIMIT_S", 0.5)
    monkeypatch.setattr(decode, "MEMORY_BYTES", 400 * 2**20)
    decoder, worked = PictureDecoder(), 0
    ended: list[str] = []
    for seed in seeds:
        data = mutated_bytes(picture(kind, seed), seed)
        try:
            with decoder.open(data, "mutant") as found:
                width, height = found.size
                assert len(found.resized(32, 32, 3)) == 32 * 32 * 3
                assert found.thumbnail(16)[:4] == b"\x89PNG" and min(width, height) > 0
            worked += 1
        except ImageError as error:
            ended.append(error.message)
    with decoder.open(picture(kind, 0), "whole") as found:
        assert len(found.resized(32, 32, 3)) == 32 * 32 * 3
    decoder._helper.close()
    assert worked > 0 and ended and all("mutant" in each for each in ended)
