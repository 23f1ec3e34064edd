"""One module for each command or group of commands, with its name.

In: parsed arguments. Out: printed text and an exit code. Start reading at `ps`; `run` is the largest.
"""
