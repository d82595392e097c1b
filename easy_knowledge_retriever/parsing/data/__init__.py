"""Data: tables and notebooks."""
