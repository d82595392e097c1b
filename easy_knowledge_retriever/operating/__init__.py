"""Keeping a base: backup and restore, export and import, moving it to other storages, purging and clearing it."""
