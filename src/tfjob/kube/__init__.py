"""A Kubernetes API server: how to reach it, how to follow it, and the controller's door to it."""
