"""Processes that work on a base and are killed at it."""
