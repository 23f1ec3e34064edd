"""The webhook of the operator: validation on admission, and conversion between versions.

In: reviews of the API server. Out: answers. Start reading at `server`; `reviews` are pure functions,
`certificates` are made in memory.
"""
