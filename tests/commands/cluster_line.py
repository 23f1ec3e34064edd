"""The command line on a cluster: `TFJOB_ON=k8s`, and a kubeconfig whose context names a namespace."""

from __future__ import annotations

from pathlib import Path

import yaml

from command_line import CommandLine
from installed import Installed


def on_cluster(tool: Installed, kubeconfig: Path, namespace: str, folder: Path) -> CommandLine:
    """`tfjob` for one namespace of a cluster."""
    file = folder / "kubeconfig"
    config = yaml.safe_load(kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    file.write_text(yaml.safe_dump(config))
    env = {**tool.env, "KUBECONFIG": str(file), "TFJOB_ON": "k8s"}
    return CommandLine(Installed(tool.command, env), folder / "home")
