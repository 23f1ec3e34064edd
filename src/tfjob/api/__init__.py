"""The contract of TFJob, and what any kind of object uses of Kubernetes. Pure: no I/O, no clock.

In: the text of a manifest, or an object that an API server stores. Out: a `TFJob` of the hub version with its defaults,
and every problem with its path and line.

Start reading at `types` (the hub version), then `manifest/loader` (from text to jobs) and `validation`. Everything that
differs between API versions is in `versions`; `dialect` says how a job of an older version behaves.
"""
