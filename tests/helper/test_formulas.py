"""Formulas as models write them are drawn whole, or not at all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from latex2mathml.exceptions import ExtraLeftOrMissingRightError, NoAvailableTokensError

from core.helper import formulas
from core.helper.formulas import EM, UnknownFormulaError, render
from core.helper.process import Helper, HelperFailedError

CORPUS = (Path(__file__).parent / "data" / "formulas.txt").read_text("utf-8").splitlines()
MEMORY = 2**30


def test_at_least_97_of_100_formulas_are_drawn() -> None:
    assert len(set(CORPUS)) >= 500
    helper = Helper(MEMORY)
    try:
        fields, attached = helper.ask(
            "formulas.render", {"formulas": [(each, True) for each in CORPUS]}, seconds=60
        )
    finally:
        helper.close()
    lost = [source for source, size in zip(CORPUS, fields["sizes"], strict=True) if not size]
    assert len(lost) <= 0.03 * len(CORPUS), lost
    assert len(attached.split(b"\0")) == len(CORPUS) - len(lost)


# Commands that aren't known or whole, what would be drawn in part, letters without glyphs.
REFUSED = (
    r"\foo{x}",
    r"\ce{H2O}",
    r"\frac{1}",
    r"{a",
    r"a}",
    r"\left( x",
    r"\begin{tikzcd} A \end{tikzcd}",
    r"\begin{matrix} a",
    r"\begin{matrix} a \end{pmatrix}",
    r"\begin{array}{c|c} a & b \end{array}",
    r"\begin{array}{cc} \hline a & b \end{array}",
    r"\text{for $x$}",
    r"\not\exists x",
    r"\mathop{x}",
    r"\newcommand{\x}{y} \x",
    r"\def\x{\x\x}\x",
    r"\href{file:///etc/passwd}{x}",
    r"\class{a}{x}",
    "模型",
    "x_{\U0001f600}",
    "x" * 3_000,
    "{" * 50 + "x" + "}" * 50,
    r"\color{red\" /><image href=\"file:///x\"/>}{x}",
    r"\color{url(file:///x)}{x}",
    "",
    r"\,",
)


# Of ours and of the two libraries.
REFUSALS = (
    UnknownFormulaError, AssertionError, ExtraLeftOrMissingRightError, NoAvailableTokensError
)  # fmt: skip


@pytest.mark.parametrize("source", REFUSED)
def test_what_can_not_be_drawn_whole_is_refused(source: str) -> None:
    with pytest.raises(REFUSALS):
        render(source, True)


@pytest.mark.parametrize(
    ("source", "same"),
    [
        (r"\begin{align} a &= b \end{align}", r"\begin{align*} a &= b \end{align*}"),
        (r"a \not= b", r"a \ne b"),
        (r"\mathop{\mathrm{tr}}(A)", r"\operatorname*{tr}(A)"),
        (r"{\operatorname{tr}}", r"\operatorname{tr}"),
        (r"\bm{x}", r"\boldsymbol{x}"),
    ],
)
def test_what_the_libraries_lack(source: str, same: str) -> None:
    assert render(source, True) == render(same, True)


def test_text_may_hold_what_xml_reserves() -> None:
    (width, _, _), _ = render(r"\text{a < b & c}", True)
    assert width > render(r"\text{a b}", True)[0][0]


def test_sizes_are_those_of_the_drawing() -> None:
    (width, ascent, descent), svg = render(r"\frac{a}{b}", True)
    found = re.search(r'width="([\d.]+)" height="([\d.]+)" viewBox', svg)
    assert found is not None
    assert float(found[1]) == width and float(found[2]) == pytest.approx(ascent + descent)
    assert 0.5 * EM < ascent < 2 * EM and 0 < descent < EM


@pytest.mark.parametrize("source", CORPUS[::25])
def test_a_drawing_holds_shapes_alone(source: str) -> None:
    _, svg = render(source, False)
    assert set(re.findall(r"<(\w+)", svg)) <= {"svg", *formulas._SHAPES}
    assert "href" not in svg and "url" not in svg and "style" not in svg


def test_a_formula_that_takes_too_long_ends_the_helper() -> None:
    helper = Helper(MEMORY)
    slow = r"\sqrt{" * 30 + "x" * 500 + "}" * 30
    try:
        with pytest.raises(HelperFailedError):
            helper.ask("formulas.render", {"formulas": [(slow, True)] * 2_000}, seconds=0.3)
        fields, _ = helper.ask("formulas.render", {"formulas": [("x", True)]}, seconds=5)
        assert fields["sizes"][0]
    finally:
        helper.close()
