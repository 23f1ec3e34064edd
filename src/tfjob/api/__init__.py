"""The TFJob API: types, API versions, defaults, validation, manifests and CRDs. Pure: no I/O, no clock.

In: the text of a manifest, or an object that an API server stores. Out: a `TFJob` of the hub version with its defaults,
and every problem with its path and line.

Start reading at `types` (the hub version), then `manifest/loader` (from text to jobs) and `validation`. `versions` has
the differences between API versions; `dialect` describes how a job of an older version behaves.
"""
