"""Language and embedding models."""
