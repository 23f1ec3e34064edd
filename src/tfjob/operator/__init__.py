"""The process that runs in a cluster: wiring, health, metrics, webhooks, and what installs it."""
