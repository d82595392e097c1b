"""Key-value storages and document status."""
