"""The text of manifests: read it with the place of every node, fill in its parameters, write it again.

In: bytes. Out: documents whose nodes know their line and column, or YAML. Start reading at `reader.parse`.
"""
