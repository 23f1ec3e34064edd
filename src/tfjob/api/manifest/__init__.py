"""From a file to jobs: the only way in which manifests and scripts enter the tool.

In: the text of a manifest, or a script and its options. Out: jobs, the objects next to them, and every problem with its
place. Start reading at `loader.load`.
"""
