"""How fast and how large: each table by one command."""
