"""Graph storages."""
