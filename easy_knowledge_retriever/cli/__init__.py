"""The ekr command."""
