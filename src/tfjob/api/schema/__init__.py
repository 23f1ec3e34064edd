"""Checks of plain values against named definitions.

In: a plain value and the name of its definition. Out: the value without faults, and a problem with a path for each
fault. `checker` has the rules and the definitions of pods; `descriptions` describes the fields of a TFJob.
"""
