"""Parsers: a file in, a Document of blocks with pages and spans out."""
