"""Contract suites, fakes and in-memory storages for users and for our own tests."""
