"""Office documents: Word, PowerPoint, Excel."""
