"""Storages in files: one journal a folder, snapshots beside it, and views in memory."""

from __future__ import annotations

from easy_knowledge_retriever.kg.files.disk import off_loop

__all__ = ["off_loop"]
