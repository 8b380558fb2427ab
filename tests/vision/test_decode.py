"""Files become upright RGB pictures or errors that name them."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from core.api.errors import (
    ImageEmptyError,
    ImageTooLargeError,
    ImageUnreadableError,
    RequestCancelled,
)
from core.api.limits import picture_format
from core.helper import pictures
from core.vision import decode
from core.vision.decode import PictureDecoder
from tests.vision.pictures import HEIC, decoded, decoder, noise, thumbnail_of

RED, GREEN, BLUE, WHITE, GREY = (
    (220, 30, 30), (30, 200, 40), (30, 40, 210), (240, 240, 240), (100, 100, 100),
)  # fmt: skip


def saved(image: Image.Image, path: Path, **options: Any) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize("name", "a.png a.bmp a.tiff a.webp a.jpg a.gif a.avif a.dat".split())
def test_each_format_is_known_by_its_contents(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    kind = {"dat": "PNG", "jpg": "JPEG"}.get(path.suffix[1:], path.suffix[1:].upper())
    options = {"lossless": True} if kind == "WEBP" else {}
    saved(noise(7, 5), path, format=kind, **options)
    image = decoded(path)
    assert (image.mode, image.size) == ("RGB", (7, 5))
    if kind not in {"JPEG", "GIF", "AVIF"}:
        assert image.tobytes() == noise(7, 5).tobytes()


def test_broken_notes_about_orientation_are_ignored(tmp_path: Path) -> None:
    path = saved(noise(6, 4), tmp_path / "a.png", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff")
    assert decoded(path).tobytes() == noise(6, 4).tobytes()


def test_transparent_parts_lie_on_white(tmp_path: Path) -> None:
    image = Image.new("RGBA", (2, 1))
    image.putpixel((0, 0), (10, 20, 30, 255))
    image.putpixel((1, 0), (10, 20, 30, 0))
    found = decoded(saved(image, tmp_path / "a.png"))
    assert [found.getpixel((x, 0)) for x in range(2)] == [(10, 20, 30), (255, 255, 255)]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "CMYK", "I;16", "F"])
def test_every_kind_of_pixel_becomes_rgb(tmp_path: Path, mode: str) -> None:
    image = Image.new(mode, (3, 2)) if mode == "I;16" else noise(3, 2, "L").convert(mode)
    path = saved(image, tmp_path / "a.tiff")
    assert decoded(path).mode == "RGB"


@pytest.mark.parametrize("name", ["a.png", "a.tiff"])
def test_sixteen_bit_greys_keep_their_shades(tmp_path: Path, name: str) -> None:
    levels = [0, 257, 32_896, 65_278, 65_535]
    image = Image.frombytes("I;16", (5, 1), struct.pack("<5H", *levels))
    found = decoded(saved(image, tmp_path / name))
    assert [found.getpixel((x, 0)) for x in range(5)] == [(level // 257,) * 3 for level in levels]


@pytest.mark.parametrize("name", ["a.gif", "a.avif"])
def test_of_a_film_the_first_frame_is_taken(tmp_path: Path, name: str) -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    path = saved(frames[0], tmp_path / name, save_all=True, append_images=frames[1:])
    assert near(decoded(path).getpixel((0, 0)), (255, 0, 0))


@pytest.mark.parametrize(
    ("name", "corners"),
    [
        ("plain", [RED, GREEN, BLUE, WHITE]),
        ("deep", [RED, GREEN, BLUE, WHITE]),  # ten bits
        ("turned", [BLUE, RED, WHITE, GREEN]),
        ("transparent", [(255, 255, 255), GREEN, BLUE, WHITE]),
        ("grey", [GREY] * 4),
        ("two", [GREEN] * 4),  # the second one is the main picture
    ],
)
def test_a_heic_picture_is_upright_and_has_its_colours(
    name: str, corners: list[tuple[int, int, int]]
) -> None:
    image = decoded(HEIC / f"{name}.heic")
    assert image.size == (64, 64)
    for at, colour in zip([(9, 9), (50, 9), (9, 50), (50, 50)], corners, strict=True):
        assert near(image.getpixel(at), colour), (at, image.getpixel(at))


def test_a_turned_avif_picture_is_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = Image.new("RGB", (40, 20), BLUE)
    picture.paste(RED, (0, 0, 20, 20))
    found = decoded(saved(picture, tmp_path / "a.avif", exif=exif))
    assert found.size == (20, 40)
    assert near(found.getpixel((9, 5)), RED) and near(found.getpixel((9, 35)), BLUE)


def near(found: object, colour: tuple[int, int, int]) -> bool:
    """Lossy formats change a colour a little."""
    assert isinstance(found, tuple)
    return all(abs(one - other) <= 4 for one, other in zip(found, colour, strict=True))


@pytest.mark.parametrize(
    ("beginning", "name"),
    [
        (b"\0\0\0\x20ftypavif\0\0\0\0avifmif1", "AVIF"),
        (b"\0\0\0\x20ftypmif1\0\0\0\0miafavif", "AVIF"),
        (b"\0\0\0\x20ftypmif1\0\0\0\0miafheic", "HEIF"),
        (b"\0\0\0\x20ftypheix\0\0\0\0mif1heic", "HEIF"),
        (b"\0\0\0\x20ftypisom\0\0\0\0isomavc1", ""),  # a film
        (b"\0\0\0\x20ftyp", ""),
        (b"", ""),
    ],
)
def test_pictures_in_one_container_are_told_apart_by_their_brands(
    beginning: bytes, name: str
) -> None:
    found = picture_format(beginning)
    assert (found.name if found else "") == name


# ---------------------------------------------------------------- refusals


def test_what_is_no_picture_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.png"
    path.write_text("dear diary")
    with pytest.raises(ImageUnreadableError, match=r"notes\.png"):
        decoded(path)
    for missing in (tmp_path / "gone.png", tmp_path):
        with pytest.raises(ImageUnreadableError, match=missing.name):
            decoded(missing)


def test_a_format_off_the_list_is_refused(tmp_path: Path) -> None:
    path = saved(noise(3, 3), tmp_path / "a.ppm")
    with pytest.raises(ImageUnreadableError):
        decoded(path)


def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.touch()
    with pytest.raises(ImageEmptyError, match=r"a\.png"):
        decoded(path)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "AVIF", "HEIF"])
def test_a_truncated_picture_is_refused(tmp_path: Path, kind: str) -> None:
    whole = io.BytesIO()
    if kind == "HEIF":
        whole.write((HEIC / "plain.heic").read_bytes())
    else:
        noise(64, 64).save(whole, kind)
    path = tmp_path / "half"
    path.write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    with pytest.raises(ImageUnreadableError, match="half"):
        decoded(path)


def test_a_flipped_bit_in_a_png_is_noticed(tmp_path: Path) -> None:
    path = saved(noise(20, 20), tmp_path / "a.png")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ImageUnreadableError):
        decoded(path)


@pytest.mark.parametrize("size", [(16_001, 16_000), (22_000, 20_000), (40_000, 40_000)])
def test_a_bomb_is_refused_by_its_header(tmp_path: Path, size: tuple[int, int]) -> None:
    """A header that promises too much, and nothing behind it: decoding would fail otherwise."""
    path = tmp_path / "bomb.png"
    path.write_bytes(_png_header(*size))
    with pytest.raises(ImageTooLargeError, match=r"bomb\.png"):
        decoded(path)


@pytest.mark.parametrize("kind", ["AVIF", "HEIF"])
def test_a_box_that_promises_too_much_is_refused_before_decoding(tmp_path: Path, kind: str) -> None:
    whole = io.BytesIO()
    noise(64, 64).save(whole, "AVIF")
    data = (HEIC / "plain.heic").read_bytes() if kind == "HEIF" else whole.getvalue()
    size = data.index(b"ispe") + 8
    path = tmp_path / "bomb"
    path.write_bytes(data[:size] + struct.pack(">II", 16_001, 16_000) + data[size + 8 :])
    with pytest.raises(ImageTooLargeError, match="256 million"):
        decoded(path)


def test_a_picture_at_the_limit_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(noise(10, 10), tmp_path / "a.png")
    monkeypatch.setattr(pictures, "MAX_PICTURE_PIXELS", 100)
    assert pictures.decode_image(path.read_bytes(), path.name).size == (10, 10)
    monkeypatch.setattr(pictures, "MAX_PICTURE_PIXELS", 99)
    with pytest.raises(ImageTooLargeError, match="10 x 10"):
        pictures.decode_image(path.read_bytes(), path.name)


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("RGB", "PNG"), ("RGBA", "PNG"), ("P", "PNG"), ("I;16", "PNG"), ("CMYK", "TIFF")],
)
def test_of_a_large_picture_four_pixels_become_their_mean(
    monkeypatch: pytest.MonkeyPatch, mode: str, kind: str
) -> None:
    image = noise(40, 52, mode if mode in {"RGB", "RGBA", "CMYK"} else "L")
    if mode == "I;16":
        image = Image.frombytes(mode, image.size, noise(80, 52, "L").tobytes())
    exif = Image.Exif()
    exif[0x0112] = 6
    data = io.BytesIO()
    image.convert(mode).save(data, kind, exif=exif)
    whole = pictures.decode_image(data.getvalue(), "a")
    monkeypatch.setattr(pictures, "WHOLE_PICTURE_PIXELS", 2_000)
    monkeypatch.setattr(pictures, "STRIP_ROWS", 16)
    small = pictures.decode_image(data.getvalue(), "a")
    assert (whole.size, small.size) == ((52, 40), (26, 20))
    assert small.tobytes() == whole.reduce(2).tobytes()


def test_a_large_jpeg_is_never_whole_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.BytesIO()
    Image.linear_gradient("L").resize((401, 300)).save(data, "JPEG", quality=95)
    monkeypatch.setattr(pictures, "WHOLE_PICTURE_PIXELS", 100_000)
    monkeypatch.delattr(pictures, "_halved")
    small = pictures.decode_image(data.getvalue(), "a")
    assert small.size == (201, 150)
    assert near(small.getpixel((100, 75)), (128, 128, 128))
    # Odd sides are rounded up: half of the largest allowed one may have more pixels than that.
    monkeypatch.setattr(pictures, "WHOLE_PICTURE_PIXELS", 30_000)
    assert pictures.decode_image(data.getvalue(), "a").size == (201, 150)


@pytest.mark.slow
def test_H3_the_largest_allowed_picture_fits_into_the_helper() -> None:
    # 16,000 x 16,000 pixels with transparency: 1 GiB before they are made smaller.
    packer, rows = zlib.compressobj(1), bytes(100 * (1 + 4 * 16_000))
    pixels = b"".join(packer.compress(rows) for _ in range(160)) + packer.flush()
    data = b"\x89PNG\r\n\x1a\n"
    for kind, inside in (
        (b"IHDR", struct.pack(">IIBBBBB", 16_000, 16_000, 8, 6, 0, 0, 0)),
        (b"IDAT", pixels),
        (b"IEND", b""),
    ):
        data += struct.pack(">I", len(inside)) + kind + inside
        data += struct.pack(">I", zlib.crc32(kind + inside))
    with decoder().open(data, "a.png") as picture:
        assert picture.size == (8_000, 8_000)
        assert picture.resized(1, 1, 0) == b"\xff\xff\xff"


def slow_jpeg() -> bytes:
    """A progressive JPEG of 49 million pixels whose 20,000 scans hold nothing: each of its 200 KiB
    costs a pass over every block of the picture."""
    quantisation = b"\xff\xdb\0\x43\0" + bytes([1] * 64)
    frame = b"\xff\xc2\0\x0b\x08" + struct.pack(">HH", 7000, 7000) + b"\x01\x01\x11\0"
    table = b"\xff\xc4\0\x14\0" + bytes([1, *[0] * 15]) + b"\0"
    first = b"\xff\xda\0\x08\x01\x01\0\0\0\x01"
    refining = b"\xff\xda\0\x08\x01\x01\0\0\0\x10"
    return b"\xff\xd8" + quantisation + frame + table + first + refining * 20_000 + b"\xff\xd9"


def test_H3_a_picture_that_decodes_for_ever_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 261 KiB held the engine for 58 seconds, and nothing could stop it."""
    monkeypatch.setattr(decode, "TIME_LIMIT_S", 0.5)
    path = tmp_path / "slow.jpg"
    path.write_bytes(slow_jpeg())
    with pytest.raises(ImageTooLargeError, match=r"slow\.jpg takes longer"):
        decoded(path)
    assert decoded(saved(noise(3, 3), tmp_path / "a.png")).size == (3, 3)


def test_H3_decoding_can_be_cancelled(tmp_path: Path) -> None:
    def cancelled() -> None:
        raise RequestCancelled("The request was stopped.")

    with pytest.raises(RequestCancelled), decoder().open(slow_jpeg(), "slow.jpg", cancelled):
        pass
    assert decoded(saved(noise(3, 3), tmp_path / "a.png")).size == (3, 3)


def test_H3_a_picture_that_takes_too_much_memory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "MEMORY_BYTES", 200 * 2**20)
    path = saved(Image.new("RGBA", (7_000, 7_000)), tmp_path / "a.png")
    with (
        pytest.raises(ImageTooLargeError, match=r"not enough memory to open a\.png"),
        PictureDecoder().open(path.read_bytes(), path.name),
    ):
        pass


def _png_header(width: int, height: int) -> bytes:
    fields = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    checksum = struct.pack(">I", zlib.crc32(fields))
    data = b"IDAT"
    empty = struct.pack(">I", 0) + data + struct.pack(">I", zlib.crc32(data))
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + fields + checksum + empty


# ---------------------------------------------------------------- thumbnails


@pytest.mark.parametrize(
    ("size", "expected"), [((400, 200), (100, 50)), ((10, 20), (10, 20)), ((300, 1), (100, 1))]
)
def test_a_thumbnail_keeps_its_shape_and_never_grows(
    tmp_path: Path, size: tuple[int, int], expected: tuple[int, int]
) -> None:
    small = thumbnail_of(saved(noise(*size), tmp_path / "a.bmp"), 100)
    assert (small.format, small.size) == ("PNG", expected)


def test_a_picture_for_the_screen_fits_and_keeps_its_pixels(tmp_path: Path) -> None:
    data = saved(noise(30, 20), tmp_path / "a.png").read_bytes()
    with decoder().open(data, "a.png") as picture:
        assert picture.fit(300, 300) == ((30, 20), noise(30, 20).convert("RGBA").tobytes())
        size, pixels = picture.fit(15, 300)
    assert size == (15, 10) and len(pixels) == 4 * 15 * 10
