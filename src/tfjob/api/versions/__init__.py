"""Every API version that a job may be written in, one module each, and the conversions between them.

In: a manifest or a stored object in any version. Out: the hub version, and back, without loss. Start reading at
`registry`; `v1` is the simplest version. `round_trip` converts stored objects for the conversion webhook.
"""
