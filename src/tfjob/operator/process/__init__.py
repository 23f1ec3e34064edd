"""The operator process: leader election, controllers, configuration, logs, metrics, probes.

In: `Options` and access to a cluster. Out: it runs until it is stopped or loses its lease. Start reading at `manager`.
"""
