"""The command line: parse arguments, call the rooms below, print.

In: `sys.argv`. Out: text, JSON or YAML on stdout, errors on stderr, an exit code. Start reading at `main`, which has
one table of commands and loads a command only when it is used: `--help` stays instant. Every import beyond click
therefore happens inside a command.
"""
