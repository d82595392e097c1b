"""Vector storages."""
