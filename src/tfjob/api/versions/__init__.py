"""The API versions of a job, one module each, and the conversions between them.

In: a manifest or a stored object in any version. Out: the hub version, or the other way round. Start reading at
`registry`; `v1` is the simplest version. `round_trip` converts stored objects for the conversion webhook.
"""
