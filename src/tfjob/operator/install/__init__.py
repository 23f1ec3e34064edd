"""install."""
