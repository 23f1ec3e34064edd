"""A training as a package: run it with -m digits.train."""
