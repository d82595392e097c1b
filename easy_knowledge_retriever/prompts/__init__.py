"""Prompts, one module a task."""
