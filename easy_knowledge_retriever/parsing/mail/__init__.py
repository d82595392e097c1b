"""Mails, with what is attached to them."""
