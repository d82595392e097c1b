"""Measurements: each result by one command."""
