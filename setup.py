"""Packaging: everything is declared in pyproject.toml; this file serves tools that look for it."""

from setuptools import setup

setup()
