"""The TFJob and Job blocks of the documents of 2017 to 2019 as manifests of our own: same shapes, other names."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parents[1] / "data" / "documents"
BLOCKS = sorted((HERE / "manifests").iterdir())
BROKEN = sorted((HERE / "broken").iterdir())

TASKS = {
    "azure-file": ["master-0"],
    "distributed": ["master-0", "ps-0", "ps-1", "worker-0"],
    "distributed-on-a-claim": ["master-0", "ps-0", "worker-0", "worker-1"],
    "first": ["master-0"],
    "first-gpu": ["master-0"],
    "job-alone": ["worker-0"],
    "snake-case-gpu": ["master-0"],
    "snake-case-tensorboard": ["master-0"],
    "stored": ["master-0", "ps-0", "ps-1", "worker-0"],
    "tensorboard-azure-file": ["master-0"],
    "tensorboard-bucket": ["master-0"],
    "v1beta1-claim": ["master-0"],
    "v1beta1-gpu": ["master-0"],
    "vanilla-job": ["worker-0"],
    "workflow-step": ["master-0", "ps-0", "worker-0", "worker-1"],
}
"""The replicas of each block."""
