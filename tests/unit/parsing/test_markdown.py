from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.parsing.base import Source
from easy_knowledge_retriever.parsing.markdown import MarkdownParser, parse_markdown


def blocks(text: str) -> list[tuple[str, int | None, str]]:
    return [(b.kind, b.level, text[b.start : b.end]) for b in parse_markdown(text).blocks]


def links(text: str) -> list[tuple[str, str]]:
    return [(text[link.start : link.end], link.target) for link in parse_markdown(text).links]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One\ntext", [("heading", 1, "# One"), ("text", None, "text")]),
        (
            "   ### Three ###\n#NoHeading\n####### seven",
            [("heading", 3, "### Three ###"), ("text", None, "#NoHeading\n####### seven")],
        ),
        ("Title\n=====\n\nSub\n---\n", [("heading", 1, "Title\n====="), ("heading", 2, "Sub\n---")]),
        ("before\nTitle\n=====", [("text", None, "before"), ("heading", 1, "Title\n=====")]),
        ("```py\n# no\n\n- no\n```\nafter", [("code", None, "```py\n# no\n\n- no\n```"), ("text", None, "after")]),
        ("~~~\n```\n~~~~\n# yes", [("code", None, "~~~\n```\n~~~~"), ("heading", 1, "# yes")]),
        ("```\nnever closed\n# no", [("code", None, "```\nnever closed\n# no")]),
        ("    # indented", [("text", None, "# indented")]),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |\nend", [("table", None, "| a | b |\n|---|:-:|\n| 1 | 2 |"), ("text", None, "end")]),
        ("- one\n\n  more\n- two\nwrapped\n\nend", [("list", None, "- one\n\n  more\n- two\nwrapped"), ("text", None, "end")]),
        ("1. one\n2) two\n# H", [("list", None, "1. one\n2) two"), ("heading", 1, "# H")]),
        ("$$\nx = 1\n$$\n![alt](p.png)", [("equation", None, "$$\nx = 1\n$$"), ("image", None, "![alt](p.png)")]),
        ("> quoted\n> # still\n\n***\n\n_ _ _", [("text", None, "> quoted\n> # still")]),
        ("text\n- list", [("text", None, "text"), ("list", None, "- list")]),
        ("", []),
        ("\n \n", []),
    ],
)
def test_blocks(text: str, expected: list[tuple[str, int | None, str]]) -> None:
    assert blocks(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](b.md) ![i](c.png) [t](<d> 'title')", [("a", "b.md"), ("t", "d")]),
        ("[<u>a</u>](b_(c).md#d)", [("<u>a</u>", "b_(c).md#d")]),
        ("[a][X y] [x  Y] [none] [x y][]\n\n[x y]: t.md 'T'", [("a", "t.md"), ("x  Y", "t.md"), ("x y", "t.md")]),
        ("<https://a.example/b> <b>", [("https://a.example/b", "https://a.example/b")]),
        ("[[Page]] and [[Page two|shown]]", [("Page", "Page"), ("shown", "Page two")]),
        ("`[a](b)` and\n```\n[c](d)\n```\n\\[e](f)", []),
    ],
)  # fmt: skip
def test_links(text: str, expected: list[tuple[str, str]]) -> None:
    assert links(text) == expected


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# The *Title* of `x`\n\ntext", "The Title of x"),
        ("## Not the highest, but first\n# One", "Not the highest, but first"),
        ("intro\n\n# Only\n\n## Sub", "Only"),
        ("intro\n\n# One\n\n# Two", ""),
        ("just text", ""),
        ('---\ntitle: "Front"\ntags: [a]\n---\n# H', "Front"),
        ("---\ntags: [a]\n---\n# H", "H"),
        ("---\n\ntext\n---\n", "text"),
    ],
)
def test_title(text: str, title: str) -> None:
    assert parse_markdown(text).title == title


def test_front_matter_is_no_heading() -> None:
    assert blocks("---\ntitle: T\n---\ntext") == [("code", None, "---\ntitle: T\n---"), ("text", None, "text")]


def test_the_text_of_a_file_is_kept() -> None:
    document = MarkdownParser().parse(Source("a.md", b"# One\r\n\r\ntext  \n"))
    assert document.text == "# One\n\ntext  \n"
    assert (document.title, document.parser, document.pages) == ("One", "markdown 1", ())


LINES = st.sampled_from(
    [
        "# h",
        "text",
        "",
        "===",
        "---",
        "- a",
        "  b",
        "```",
        "| a |",
        "|---|",
        "[a](b)",
        "$$",
        "> q",
        "1. x",
        "[a]: b",
        "\t",
        "~~~",
        "[a][]",
    ]
)


@given(st.lists(LINES, max_size=25).map("\n".join) | st.text(max_size=60))
def test_blocks_are_slices_in_order(text: str) -> None:
    parsed = parse_markdown(text)
    at = 0
    for block in parsed.blocks:
        assert at <= block.start < block.end <= len(text)
        assert text[block.start : block.end].strip() == text[block.start : block.end]
        at = block.end
    for link in parsed.links:
        assert 0 <= link.start < link.end <= len(text)
        assert link.target
