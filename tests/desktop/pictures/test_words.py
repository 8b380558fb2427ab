from __future__ import annotations

from desktop.words.pictures import NO_PICTURE, Refusal, not_taken, too_large


def test_refusals_of_one_kind_are_one_sentence() -> None:
    one = Refusal("a.txt", why=NO_PICTURE)
    assert not_taken([one]) == "Not taken: a.txt is not a picture."
    two = [one, Refusal("b.txt", why=NO_PICTURE), Refusal("c.png", why=too_large(2_000))]
    assert not_taken(two) == (
        "Not taken: a.txt, b.txt are not pictures. Not taken: c.png is larger than 2.0 KB."
    )
    # The same file twice is one refusal.
    assert not_taken([one, one]) == not_taken([one])
    assert not_taken([]) == ""


def test_of_many_a_few_are_named_and_the_others_counted() -> None:
    many = [Refusal(f"{at}.txt", why=NO_PICTURE) for at in range(15)]
    assert not_taken(many) == "Not taken: 0.txt, 1.txt, 2.txt and 12 more are not pictures."
    said = [Refusal(f"{at}.png", said="It is damaged.") for at in range(16)]
    words = not_taken(said)
    assert words.startswith("0.png was not taken: It is damaged. 1.png was not taken:")
    assert words.endswith(" And 12 more were not taken.") and len(words) < 300


def test_a_name_is_said_once() -> None:
    damaged = Refusal("a.png", said="a.png is damaged.")
    assert not_taken([damaged]) == "Not taken: a.png is damaged."


def test_what_has_no_name_is_said_as_it_is() -> None:
    words = not_taken([Refusal(said="Not taken: an address."), Refusal("a.txt", why=NO_PICTURE)])
    assert words == "Not taken: a.txt is not a picture. Not taken: an address."
