"""One run, from its submission to its removal.

In: a submission. Out: a run that a driver process drives until it ends. Start reading at `submission`, then `driver`
and `kubelet`; `driver_lock` says from outside whether a run is driven.
"""
