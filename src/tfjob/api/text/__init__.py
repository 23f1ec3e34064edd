"""Read and write the text of manifests.

In: bytes. Out: documents that know the line and column of every value, or YAML. Start reading at `reader.parse`.
"""
