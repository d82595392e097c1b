"""BM25 storages."""
