"""The flow that makes a document searchable, and its reverse."""
