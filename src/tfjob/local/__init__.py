"""This machine as a cluster: pods are supervised processes, state is one folder."""
