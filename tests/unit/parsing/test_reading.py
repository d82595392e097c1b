from __future__ import annotations

from pathlib import Path

import pytest

from easy_knowledge_retriever.errors import ConfigError, MissingExtraError, ParseError
from easy_knowledge_retriever.parsing import Source, can_parse, formats, missing_formats, parser_for
from easy_knowledge_retriever.parsing.office.docx import DocxParser
from easy_knowledge_retriever.parsing.reading import parse_source, read_source, text_document
from easy_knowledge_retriever.text.hashing import digest, document_id, text_document_id
from easy_knowledge_retriever.types import PageSpan
from tests.support.pdf import pdf_bytes


class TestFormats:
    def test_what_can_be_read(self) -> None:
        assert {".md": "markdown", ".pdf": "liteparse", ".txt": "plain-text", ".docx": "docx"}.items() <= formats().items()
        assert list(formats()) == sorted(formats())
        assert missing_formats() == {}

    def test_what_a_package_would_add(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(DocxParser, "needs", {"none_such": "none-such"})
        assert ".docx" not in formats()
        assert missing_formats() == {".docm": "documents", ".docx": "documents"}
        with pytest.raises(MissingExtraError, match="none-such") as caught:
            parser_for("a.docx").parse(Source("a.docx", b"PK"))
        assert "easy-knowledge-retriever[documents]" in caught.value.hint

    def test_suffixes_in_any_case(self) -> None:
        assert can_parse("A.PDF") and can_parse(Path("dir.x/b.Md"))
        assert not can_parse("a.xyz") and not can_parse("README")

    @pytest.mark.parametrize(("path", "said"), [("dir/a.xyz", "'.xyz'"), ("README", "a name without suffix")])
    def test_another_suffix_is_refused_with_what_can_be_read(self, path: str, said: str) -> None:
        with pytest.raises(ParseError) as caught:
            parser_for(path)
        assert caught.value.reason == "unsupported"
        assert path in str(caught.value) and said in str(caught.value)
        assert ".md" in caught.value.hint and "ekr formats" in caught.value.hint


class TestFiles:
    async def test_a_file_becomes_a_document(self, tmp_path: Path) -> None:
        path = tmp_path / "note.txt"
        path.write_bytes(b"One.\r\n\r\nTwo.")
        source = await read_source(path, collection="c", metadata={"year": 2024})
        document = await parse_source(source)
        assert document.text == "One.\n\nTwo."
        assert (document.id, document.name, document.collection) == (document_id("note.txt", "c"), "note.txt", "c")
        assert document.digest == digest(b"One.\r\n\r\nTwo.")
        assert document.metadata == {"year": 2024}
        assert [(b.kind, b.start, b.end) for b in document.blocks] == [("text", 0, 4), ("text", 6, 10)]

    async def test_a_name_needs_no_suffix(self, tmp_path: Path) -> None:
        path = tmp_path / "note.md"
        path.write_text("# T\n\ntext")
        document = await parse_source(await read_source(path, name="My note", document_id="mine"))
        assert (document.id, document.name, document.title) == ("mine", "My note", "T")

    async def test_pages_count_from_0_outside_and_from_1_inside(self, tmp_path: Path) -> None:
        path = tmp_path / "a.pdf"
        path.write_bytes(pdf_bytes([[(f"Words of page {i}.", 11)] for i in range(1, 5)]))
        document = await parse_source(await read_source(path, start_page=1, end_page=2))
        assert [span.page for span in document.pages] == [2, 3]

    async def test_a_format_without_pages_says_so(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text("text")
        document = await parse_source(await read_source(path, start_page=1))
        assert document.warnings == ("the page range is ignored: .txt has no pages",)

    @pytest.mark.parametrize(("start", "end"), [(-1, None), (3, 2), (None, -1)])
    async def test_what_is_no_range(self, start: int | None, end: int | None) -> None:
        with pytest.raises(ConfigError, match="no range of pages"):
            await read_source("a.pdf", start_page=start, end_page=end)

    async def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(ParseError, match="no file") as caught:
            await read_source(tmp_path / "none.md")
        assert caught.value.reason == "not_found"

    async def test_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / "folder.md").mkdir()
        with pytest.raises(ParseError, match="folder") as caught:
            await read_source(tmp_path / "folder.md")
        assert caught.value.reason == "not_found"

    async def test_a_file_that_cannot_be_opened(self, tmp_path: Path) -> None:
        path = tmp_path / "a.md"
        path.symlink_to(path)
        with pytest.raises(ParseError, match="cannot be opened") as caught:
            await read_source(path)
        assert caught.value.reason == "not_found"

    async def test_an_unknown_suffix_comes_before_the_file(self) -> None:
        with pytest.raises(ParseError) as caught:
            await read_source("none.xyz")
        assert caught.value.reason == "unsupported"

    @pytest.mark.parametrize(
        ("name", "content", "reason"),
        [
            ("a.txt", b"", "empty"),
            ("a.md", b" \n\t", "empty"),
            ("a.md", "\ufeff".encode(), "empty"),
            ("a.txt", b"%PDF-1.7 ...", "corrupt"),
            ("a.md", b"PK\x03\x04...", "corrupt"),
            ("a.pdf", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "corrupt"),
            ("a.txt", bytes(range(256)) * 4, "encoding"),
        ],
    )
    async def test_content_that_is_not_what_the_name_says(self, tmp_path: Path, name: str, content: bytes, reason: str) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ParseError, match=name) as caught:
            await parse_source(await read_source(tmp_path / name))
        assert caught.value.reason == reason


class TestBareText:
    def test_its_identity_is_what_it_says(self) -> None:
        document = text_document("# T\n\ntext")
        assert document.id == document.name == text_document_id("# T\n\ntext")
        assert (document.title, document.digest) == ("T", digest("# T\n\ntext"))

    def test_or_the_name_it_was_given(self) -> None:
        document = text_document("text", name="a/b", collection="c", metadata={"k": 1})
        assert (document.id, document.name, document.collection) == (document_id("a/b", "c"), "a/b", "c")

    def test_pages_move_with_what_is_cleaned(self) -> None:
        document = text_document("on\0e\r\ntwo", pages=[PageSpan(1, 0, 4), PageSpan(2, 6, 9)])
        assert [document.text[p.start : p.end] for p in document.pages] == ["one", "two"]
        assert document.warnings == ("1 control character removed",)

    @pytest.mark.parametrize("pages", [[PageSpan(1, 0, 5)], [PageSpan(1, 2, 1)], [PageSpan(1, 1, 3), PageSpan(2, 2, 4)]])
    def test_pages_that_cannot_be(self, pages: list[PageSpan]) -> None:
        with pytest.raises(ConfigError):
            text_document("text", pages=pages)

    def test_nothing_is_refused(self) -> None:
        with pytest.raises(ParseError, match="empty"):
            text_document(" \n")
