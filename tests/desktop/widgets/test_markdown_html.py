from __future__ import annotations

import pytest

from desktop.views.widgets.markdown_html import is_web_address, to_html


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
        ("`http://a.b`", "<p><code>&nbsp;http://a.b&nbsp;</code></p>"),
        ("    a < b", "<pre>a &lt; b</pre>"),
        ("[a]: http://b.c", '<p>[a]: <a href="http://b.c">http://b.c</a></p>'),
    ],
)
def test_a_block_becomes_html(source: str, html: str) -> None:
    assert (to_html(source) or "").strip() == html


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
