from __future__ import annotations

from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easy_knowledge_retriever.errors import ParseError
from easy_knowledge_retriever.parsing import PARSERS, Source
from easy_knowledge_retriever.types import Document


def _parsed(content: bytes) -> Document:
    return PARSERS[".eml"].parse(Source("a.eml", content))


def _blocks(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def _mail(body: str, *, subject: str = "The Kell") -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Ida <ida@example.com>", "mira@example.com", subject
    mail.set_content(body)
    return mail


def test_head_text_and_quotes() -> None:
    document = _parsed(bytes(_mail("It flows.\n\nSo it does.\n> Does it flow?\n> Tell me.\n\nIda", subject="Über den Kell")))
    assert document.title == "Über den Kell"
    assert _blocks(document) == [
        ("text", "From: Ida <ida@example.com>\nTo: mira@example.com\nSubject: Über den Kell"),
        ("text", "It flows."),
        ("text", "So it does."),
        ("quote", "> Does it flow?\n> Tell me."),
        ("text", "Ida"),
    ]


def test_attachments_are_read_in_turn_and_what_cannot_be_is_named() -> None:
    mail = _mail("See below.")
    mail.add_attachment(b"# Towns\n\nVerdel", maintype="text", subtype="markdown", filename="towns.md")
    mail.add_attachment(b"\x00\x01", maintype="application", subtype="octet-stream", filename="../x.bin")
    mail.add_attachment(b"%PDF-1.4 broken", maintype="application", subtype="pdf", filename="b.pdf")
    mail.add_attachment(_mail("Inside.", subject="Inner"))
    document = _parsed(bytes(mail))
    assert _blocks(document)[2:] == [
        ("heading", "towns.md"),
        ("heading", "# Towns"),
        ("text", "Verdel"),
        ("heading", "attached message/rfc822"),
        ("text", "From: Ida <ida@example.com>\nTo: mira@example.com\nSubject: Inner"),
        ("text", "Inside."),
    ]
    assert [warning.split(" was left out")[0] for warning in document.warnings] == ["'../x.bin'", "'b.pdf'"]


def test_the_plain_text_is_preferred_and_html_read_where_there_is_none() -> None:
    both, html = _mail("plain"), EmailMessage()
    both.add_alternative("<p>rich</p>", subtype="html")
    html.set_content("<h1>Kell</h1><p>It flows.</p>", subtype="html")
    assert _blocks(_parsed(bytes(both)))[1:] == [("text", "plain")]
    assert _blocks(_parsed(bytes(html))) == [("heading", "Kell"), ("text", "It flows.")]


def test_a_blank_plain_text_gives_way_to_the_html() -> None:
    both = _mail(" \n")
    both.add_alternative("<p>rich</p>", subtype="html")
    assert _blocks(_parsed(bytes(both)))[1:] == [("text", "rich")]


def test_a_mail_that_is_one_attachment() -> None:
    mail = EmailMessage()
    mail["Subject"] = "Towns"
    mail.add_attachment(b"# Verdel", maintype="text", subtype="markdown", filename="towns.md")
    [alone] = mail.iter_attachments()
    content = b"Subject: Towns\n" + bytes(alone)
    assert _blocks(_parsed(content)) == [("text", "Subject: Towns"), ("heading", "towns.md"), ("heading", "# Verdel")]


def test_parts_that_only_hold_parts_are_no_attachments() -> None:
    inner = EmailMessage()
    inner.add_attachment(b"# Verdel", maintype="text", subtype="markdown", filename="towns.md")
    outer = _mail("See below.")
    outer.make_mixed()
    outer.attach(inner)
    document = _parsed(bytes(outer))
    assert _blocks(document)[1:] == [("text", "See below."), ("heading", "towns.md"), ("heading", "# Verdel")]
    assert document.warnings == ()


def test_mails_in_mails_end() -> None:
    mail = _mail("0")
    for depth in range(1, 8):
        outer = _mail(str(depth))
        outer.add_attachment(mail)
        mail = outer
    document = _parsed(bytes(mail))
    assert [text for _, text in _blocks(document) if text.isdigit()] == ["7", "6", "5", "4"]
    assert any("in a mail in a mail" in warning for warning in document.warnings)


@pytest.mark.parametrize(
    "content",
    [
        b"Subject: x\nContent-Type: multipart/mixed; boundary=b\n\nno parts",
        b"Subject: x\nContent-Type: text/plain; charset=klingon\n\nk\xf6nnen",
        b"Subject: x\nContent-Transfer-Encoding: base64\n\n%%%%",
        b"From: =?utf-8?b?broken\nTo: <<<>>>;;;\nDate: yesterday\n\nText",
    ],
)
def test_broken_mails_are_read_as_far_as_they_go(content: bytes) -> None:
    assert _parsed(content).text


@given(st.binary(max_size=300))
def test_any_bytes_give_a_document_or_a_typed_error(content: bytes) -> None:
    try:
        document = _parsed(b"Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\n" + content)
    except ParseError:
        return
    assert all(document.text[block.start : block.end] for block in document.blocks)
