from __future__ import annotations

import re
from html import escape

import pytest

from desktop.chat.markdown.renderer import CODE_EDGE, is_web_address, to_html

pytestmark = pytest.mark.usefixtures("dressed")


@pytest.mark.parametrize(
    ("source", "html"),
    [
        ("a **b** ~~c~~", "<p>a <strong>b</strong> <s>c</s></p>"),
        ("<b>x</b> & <img src=x>", "<p>&lt;b&gt;x&lt;/b&gt; &amp; &lt;img src=x&gt;</p>"),
        ("<script>x</script>", "<p>&lt;script&gt;x&lt;/script&gt;</p>"),
        ("![cat](/etc/passwd)", "<p><i>cat</i> (/etc/passwd)</p>"),
        ("![](file:///etc/passwd)", "<p><i>picture</i> (file:///etc/passwd)</p>"),
        ("![a <b>](//host/share)", "<p><i>a &lt;b&gt;</i> (//host/share)</p>"),
        ("[x](https://a.b/?c&d)", '<p><a href="https://a.b/?c&amp;d">x</a></p>'),
        ("[x](javascript:alert(1))", "<p>x (javascript:alert(1))</p>"),
        ("[x](file:///etc/passwd)", "<p>x (file:///etc/passwd)</p>"),
        ("[x](//host/share)", "<p>x (//host/share)</p>"),
        ("<data:text/html,x>", "<p>data:text/html,x (data:text/html,x)</p>"),
        ("see http://a.b/c.", '<p>see <a href="http://a.b/c">http://a.b/c</a>.</p>'),
        ("[http://a.b](http://c.d)", '<p><a href="http://c.d">http://a.b</a></p>'),
        ("`http://a.b`", f"<p><code>{CODE_EDGE}http://a.b{CODE_EDGE}</code></p>"),
        ("    a < b", "<pre>a &lt; b</pre>"),
        ("H<sub>2</sub>O<SUP>*a*</SUP>", "<p>H<sub>2</sub>O<sup><em>a</em></sup></p>"),
        ("a<br>b<br />c", "<p>a<br />\nb<br />\nc</p>"),
        ("<sub>a *b</sup> c* </sub", "<p>&lt;sub&gt;a <em>b&lt;/sup&gt; c</em> &lt;/sub</p>"),
        ("*a <sub>b* c</sub>", "<p>*a <sub>b* c</sub></p>"),
        ("<sub onclick=x>a</sub>", "<p>&lt;sub onclick=x&gt;a&lt;/sub&gt;</p>"),
        (
            "`<br>` <sup><b></sup>",
            f"<p><code>{CODE_EDGE}&lt;br&gt;{CODE_EDGE}</code> <sup>&lt;b&gt;</sup></p>",
        ),
        ("a[^1] b[^a-z]", "<p>a<sup>1</sup> b[^a-z]</p>"),
        (
            "a\n[^1]: *b*\nc\n[^12]: d",
            '<p>a</p>\n<p class="footnote"><sup>1</sup> <em>b</em>\nc</p>\n'
            '<p class="footnote"><sup>12</sup> d</p>',
        ),
        (
            "- [ ] a\n- [x] *b*",
            '<ul style="list-style-type: none">\n<li>\N{BALLOT BOX} a</li>\n'
            "<li>\N{BALLOT BOX WITH CHECK} <em>b</em></li>\n</ul>",
        ),
        ("- [ ] a\n- b", "<ul>\n<li>\N{BALLOT BOX} a</li>\n<li>b</li>\n</ul>"),
        ("[ ] a", "<p>[ ] a</p>"),
        ("[a]: http://b.c", '<p>[a]: <a href="http://b.c">http://b.c</a></p>'),
    ],
)
def test_a_block_becomes_html(source: str, html: str) -> None:
    assert (to_html(source) or "").strip() == html


@pytest.mark.parametrize(
    "formula",
    [
        r"\(a_1*b*c_2\)",
        r"\[a\,b \% c \{d\}\]",
        "$$a_1*b*c_2$$",
        "$a_1*b*c_2$",
        "$a*b*c$",
        "$n$",
        "$n!$",
        "$f'$",
        "$P(A, B)$",
        r"$2\text{ and }x_1*b*c_2$",
        r"\(`a` <b> [x](http://a.b) $5\)",
    ],
)
def test_mathematics_is_kept_as_written(formula: str) -> None:
    html = to_html(f"*so* {formula} *it is*") or ""
    shown = escape(formula)
    assert html == f'<p><em>so</em> <span class="math">{shown}</span> <em>it is</em></p>'


@pytest.mark.parametrize(
    "formula", [r"\(a_1*b*c", r"\[a\,*b*", "$$a_1*b*c", "$a_1*b*c", "$a_1 *b*"]
)
def test_a_formula_that_is_still_streamed_is_kept_as_written(formula: str) -> None:
    assert to_html(f"So {formula}") == f'<p>So <span class="math">{formula}</span></p>'


@pytest.mark.parametrize("opener", ["\\[", "$$"])
def test_no_line_of_a_displayed_formula_is_a_list_or_a_heading(opener: str) -> None:
    closer = {"\\[": "\\]", "$$": "$$"}[opener]
    formula = f"{opener}\n  a_1\n- b*c*\n=\n# d\n{closer}"
    html = to_html(f"So\n{formula}\nwhere *b*") or ""
    lines = formula.replace("\n", "<br>")
    assert html.split("\n")[1] == f'<p><span class="math">{lines}</span></p>'
    assert html.endswith("<p>where <em>b</em></p>")


@pytest.mark.parametrize(
    ("source", "html"),
    [
        ("$5 and $6", "$5 and $6"),
        ("**$5** and *$6*", "<strong>$5</strong> and <em>$6</em>"),
        ("$5 **or** 6$", "$5 <strong>or</strong> 6$"),
        ("US$5 *or* US$6_000_", "US$5 <em>or</em> US$6_000_"),
        ("$5, *with* a_b, for 6$ *each*", "$5, <em>with</em> a_b, for 6$ <em>each</em>"),
        ("$$ or $$$ *each*", "$$ or $$$ <em>each</em>"),
        ("`$a` *and* `$b=c$`", "<code>|$a|</code> <em>and</em> <code>|$b=c$|</code>"),
        (r"\$x_1$ \\(*a*)", r"$x_1$ \(<em>a</em>)"),
        ("$HOME/*.txt* and $PATH", "$HOME/<em>.txt</em> and $PATH"),
    ],
)
def test_a_currency_sign_begins_no_formula(source: str, html: str) -> None:
    shown = re.sub(r"</?span[^>]*>", "", to_html(source) or "").replace(CODE_EDGE, "|")
    assert shown == f"<p>{html}</p>"


@pytest.mark.parametrize("source", ["$A$1", "a$b$", "$no$", "$ n $", "$n and $m", "$5$", "$n$m"])
def test_a_symbol_between_dollars_is_alone(source: str) -> None:
    assert to_html(source) == f"<p>{source}</p>"


def test_a_table_keeps_its_alignment() -> None:
    html = to_html("| a | b |\n|---|--:|\n| 1 | 2 |") or ""
    assert '<td style="text-align:right">2</td>' in html


@pytest.mark.parametrize("source", ["> " * 30 + "x", "- " * 30 + "x"])
def test_what_is_nested_too_deeply_is_left_as_text(source: str) -> None:
    assert to_html(source) is None


def test_a_table_too_large_is_left_as_text() -> None:
    assert to_html("|a" * 500 + "\n" + "|-" * 500 + "\n" + "x\n" * 100) is None


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://a.b", True),
        ("http://a.b/c?d=e#f", True),
        ("HTTP://a.b", True),
        ("https:a", False),
        ("//a.b", False),
        ("/etc/passwd", False),
        ("file:///etc/passwd", False),
        ("javascript:x", False),
        ("data:text/html,x", False),
        ("http://[broken", False),
        ("http://a.com:99999/", False),
        ("http://a..com/x", False),
        ("http://a.com%2F.b.com", False),
        ("", False),
    ],
)
def test_only_web_addresses_are_links(address: str, expected: bool) -> None:
    assert is_web_address(address) is expected
