"""The text of manifests: read it with the place of every node, and write it again.

In: bytes. Out: documents whose nodes know their line and column, or YAML. Start reading at `reader.parse`.
"""
