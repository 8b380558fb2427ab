from __future__ import annotations

from typing import get_args

import pytest
from pydantic import ValidationError
from PySide6.QtCore import QLocale

from core.api.model_info import LoadFacts, PrecisionChoice, TooLarge
from core.api.stats import Miss, MissReason, Place, RequestStats
from desktop import numbers

Size = tuple[int, int]


@pytest.mark.parametrize(
    ("size", "resized", "tokens", "words"),
    [
        ((4000, 3000), (1184, 864), 999, "4000 x 3000 \N{RIGHTWARDS ARROW} 1184 x 864, 999 tokens"),
        ((480, 480), (480, 480), 225, "480 x 480, 225 tokens"),
        ((480, 480), None, None, "480 x 480"),
        ((32, 32), (32, 32), 1, "32 x 32, 1 token"),
    ],
)
def test_a_picture_says_what_becomes_of_it(
    size: Size, resized: Size | None, tokens: int | None, words: str
) -> None:
    assert numbers.picture_caption(size, resized, tokens) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (149_600_000, "149.6 MB"),
        (1000**2 - 1, "1.0 MB"),
        (5 * 1000**3, "5.0 GB"),
        (2000 * 1000**4, "2,000.0 TB"),
    ],
)
def test_bytes_are_said_in_the_largest_unit(count: int, words: str) -> None:
    assert numbers.format_bytes(count) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (4_000_000_000, "4B"),
        (1_584_804_000, "1.6B"),
        (396_900_000_000, "396.9B"),
        (999_700_000, "1B"),
        (450_000_000, "450M"),
        (3_800_000, "3.8M"),
        (2_000_000, "2M"),
    ],
)
@pytest.mark.parametrize("language", [QLocale.Language.C, QLocale.Language.German])
def test_parameters_read_as_in_names(count: int, words: str, language: QLocale.Language) -> None:
    before = QLocale()
    QLocale.setDefault(QLocale(language))
    try:
        assert numbers.short_count(count) == words
    finally:
        QLocale.setDefault(before)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"),
        (0.0004, "< 0.01 s"),
        (0.005, "0.01 s"),
        (0.044, "0.04 s"),
        (0.41, "0.4 s"),
        (9.96, "10 s"),
        (59.7, "1 min 0 s"),
        (125, "2 min 5 s"),
    ],
)
def test_durations_are_short(seconds: float, words: str) -> None:
    assert numbers.format_seconds(seconds) == words


def test_a_reply_is_summed_up_in_one_line() -> None:
    stats = RequestStats(
        prompt_tokens=1260,
        reused_tokens=1204,
        evaluated_tokens=56,
        images_in_prompt=1,
        ttft_s=0.41,
        decode_tokens_per_s=28.3,
    )
    assert numbers.numbers_text(stats) == (
        "1,204 of 1,260 tokens reused · 56 read · 1 image reused · first token 0.4 s · 28 tokens/s"
    )


def test_numbers_of_an_imported_chat_can_be_shown_or_are_refused() -> None:
    for nonsense in ('"ttft_s": 1e300', '"prefill_s": NaN', f'"prompt_tokens": {10**30}'):
        with pytest.raises(ValidationError):
            RequestStats.model_validate_json(f"{{{nonsense}}}")
    stats = RequestStats.model_validate_json('{"ttft_s": 1e18, "draft": {"drafted": 1}}')
    assert numbers.describe_drafts(stats) == "" and "tokens reused" in numbers.numbers_text(stats)
    assert numbers.format_count(2**70) == numbers.format_count(2**63 - 1)


def test_the_line_leaves_out_what_is_not_known() -> None:
    stats = RequestStats(prompt_tokens=9, evaluated_tokens=9, images_in_prompt=2, images_encoded=2)
    assert numbers.numbers_text(stats) == "0 of 9 tokens reused · 9 read · 2 images encoded"


def test_a_hundred_percent_is_said_only_of_everything() -> None:
    almost = RequestStats(prompt_tokens=1000, reused_tokens=999, evaluated_tokens=1)
    assert numbers.reused_percent(almost) == 99
    assert numbers.reused_percent(RequestStats(prompt_tokens=3, reused_tokens=3)) == 100
    assert numbers.reused_percent(RequestStats()) == 0


def test_messages_count_from_one_and_the_token_is_named() -> None:
    words = numbers.describe_miss(Miss(reason="evicted", token=11061, message=2))
    assert words.startswith("Read again from message 3 on (token 11,061): ")


def test_a_miss_before_the_first_message_is_placed_at_the_beginning() -> None:
    words = numbers.describe_miss(Miss(reason="diverged", token=0, message=None))
    assert words.startswith("Read again from the beginning (token 0): ")


def test_each_reason_has_a_sentence_of_its_own() -> None:
    reasons: tuple[MissReason, ...] = get_args(MissReason)
    sentences = {
        numbers.describe_miss(Miss(reason=reason, token=5, message=0)) for reason in reasons
    }
    assert len(sentences) == len(reasons)
    assert all(sentence.endswith(".") for sentence in sentences)


def test_what_was_restored_is_placed() -> None:
    stats = RequestStats(restored_from="slab", restored_at=Place(token=1204, position=212))
    assert numbers.describe_restore(stats) == "the context in use, up to token 1,204"
    assert numbers.describe_restore(RequestStats()) == "nothing reused"


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (LoadFacts(), ""),
        (
            LoadFacts(seconds=7.5, packing_s=1.31, token_bytes=463_500_000),
            "Loaded in 7.5 s, including 1.3 s to arrange the weights. "
            "Each token of a reply reads 463.5 MB of weights.",
        ),
        (
            LoadFacts(seconds=2.1, packing_s=1.3, from_disk=True),
            "Loaded in 2.1 s, including 1.3 s to arrange the weights; "
            "quantised weights came from disk.",
        ),
        (
            LoadFacts(seconds=2.1, packing_s=1.3, slowed_by="no C compiler was found"),
            "Loaded in 2.1 s, including 1.3 s to arrange the weights. "
            "Replies are slower than they could be: no C compiler was found.",
        ),
    ],
)
def test_a_load_says_how_long_it_took(load: LoadFacts, words: str) -> None:
    assert numbers.describe_load(load) == words


def choice(needed: int, free: int, *larger: int, faster_than: str = "") -> PrecisionChoice:
    """`larger`: what bfloat16, then int8, should have had free, in MB like the others."""
    names = ("bfloat16", "int8")[: len(larger)]
    too_large = tuple(
        TooLarge(precision=name, needed=size * 10**6)
        for name, size in zip(names, larger, strict=True)
    )
    return PrecisionChoice(
        needed=needed * 10**6, free=free * 10**6, too_large=too_large, faster_than=faster_than
    )


@pytest.mark.parametrize(
    ("precision", "why", "words"),
    [
        ("int8", None, ""),
        (
            "bfloat16",
            choice(1_600, 20_000, faster_than="float32"),
            "it fits and is faster than float32 on this processor: it needs 1.6 GB and 20.0 GB "
            "were free",
        ),
        ("published", choice(900, 1_600), "it fits: it needs 900.0 MB and 1.6 GB were free"),
        ("bfloat16", choice(1_600, 1_600), "it fits: it needs 1.6 GB and 1.6 GB were free"),
        (
            "int8",
            choice(4_500, 6_100, 8_400),
            "bfloat16 needs 8.4 GB and only 6.1 GB were free",
        ),
        (
            "int4",
            choice(2_900, 3_000, 8_400, 4_500),
            "int8 needs 4.5 GB and only 3.0 GB were free",
        ),
        # What is written alike is not said to be.
        (
            "int8",
            choice(4_500, 6_100, 6_101),
            "bfloat16 needs more than the 6.1 GB that were free",
        ),
        (
            "int4",
            choice(2_900, 2_000, 8_400, 4_500),
            "it is the smallest: it needs 2.9 GB and only 2.0 GB were free",
        ),
    ],
)
def test_an_automatic_precision_says_why(
    precision: str, why: PrecisionChoice | None, words: str
) -> None:
    shown = "as published" if precision == "published" else precision
    expected = f"Automatic: {shown}, because {words}." if words else ""
    assert numbers.describe_choice(precision, why) == expected
