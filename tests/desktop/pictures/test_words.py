from __future__ import annotations

from desktop.pictures.picture_files import Refusal, not_added

NO_PICTURE = "{names} is not a picture.", "{names} are not pictures."
TOO_LARGE = "{names} is larger than 2.0 KB.", "{names} are larger than 2.0 KB."


def test_refusals_of_one_kind_are_one_sentence() -> None:
    one = Refusal("a.txt", why=NO_PICTURE)
    assert not_added([one]) == "Not added: a.txt is not a picture."
    two = [one, Refusal("b.txt", why=NO_PICTURE), Refusal("c.png", why=TOO_LARGE)]
    assert not_added(two) == (
        "Not added: a.txt, b.txt are not pictures. Not added: c.png is larger than 2.0 KB."
    )
    # The same file twice is one refusal.
    assert not_added([one, one]) == not_added([one])
    assert not_added([]) == ""


def test_a_few_names_are_shown_and_the_others_counted() -> None:
    many = [Refusal(f"{at}.txt", why=NO_PICTURE) for at in range(15)]
    assert not_added(many) == "Not added: 0.txt, 1.txt, 2.txt and 12 more are not pictures."
    said = [Refusal(f"{at}.png", said="It is damaged.") for at in range(16)]
    words = not_added(said)
    assert words.startswith("0.png was not added: It is damaged. 1.png was not added:")
    assert words.endswith(" And 12 more were not added.") and len(words) < 300


def test_a_sentence_that_contains_the_name_doesnt_repeat_it() -> None:
    damaged = Refusal("a.png", said="a.png is damaged.")
    assert not_added([damaged]) == "Not added: a.png is damaged."
    words = not_added([Refusal(said="Not added: an address."), Refusal("a.txt", why=NO_PICTURE)])
    assert words == "Not added: a.txt is not a picture. Not added: an address."
