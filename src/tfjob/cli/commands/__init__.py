"""One module per command or group of commands, named after it.

In: parsed arguments. Out: printed text and an exit code. Start reading at `ps`; `run` is the largest.
"""
