"""The CustomResourceDefinitions that an installation applies.

In: the versions to serve. Out: CRDs as plain objects. `tfjob` makes the CRD of v1; `older` adds the older versions and
makes the CRD of the 2017 TfJob.
"""
