"""Storages and the knowledge base they make up."""
