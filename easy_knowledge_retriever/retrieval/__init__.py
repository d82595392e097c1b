"""The flow that answers a question, and its strategies."""
