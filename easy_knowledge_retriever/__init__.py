"""Easy Knowledge Retriever."""
