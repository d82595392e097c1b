"""Takes in what other systems know already, so that nobody pays twice for an extraction."""
