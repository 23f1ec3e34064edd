"""The warm-up of a version before it serves."""
