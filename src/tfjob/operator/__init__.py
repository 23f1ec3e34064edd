"""The operator: the process in a cluster, and its installation.

In: command-line options and a configuration. Out: a process that runs the controller with webhooks, metrics and health,
or an installed operator. Start reading at `process/manager`; `install` installs it on a cluster, `selftest` tests it
there, and `options` has its settings and names.
"""
