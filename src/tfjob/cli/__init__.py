"""The commands; every import beyond click happens inside a command, so that `--help` stays instant."""
