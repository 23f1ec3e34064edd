"""The logs of pods on this machine: rotated files of CRI lines.

In: folders of containers. Out: lines, once or while they grow. Start reading at `reader`.
"""
