"""selftest."""
