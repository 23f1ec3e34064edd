"""The decision: pure policies that turn a job and its observed children into a status and actions."""
