"""Text: tokens, terms, sentences, hashes, cleaning, language."""
