"""Examples for the help of every command; the tests parse each of them."""

from __future__ import annotations

EXAMPLES = {
    "init": (
        ("tfjob init", "tfjob.yaml and train.py, here"),
        ("tfjob init single digits", "another template, in the folder digits"),
    ),
    "run": (
        ("tfjob run tfjob.yaml", "a manifest, as processes of this machine"),
        ("tfjob run train.py --workers 2 -- --epochs 3", "a script, by two workers"),
        ("tfjob run train.py --chief --workers 2 --ps 1 --dry-run -o yaml", "print its manifest"),
        ("tfjob run tfjob.yaml --on k8s", "the same on a cluster"),
    ),
    "submit": (
        ("tfjob submit tfjob.yaml", "in the background"),
        ("tfjob submit tfjob.yaml --name second -p steps=500", "another name, ${steps} filled in"),
    ),
    "check": (
        ("tfjob check tfjob.yaml", "what is wrong with it"),
        ("tfjob check tfjob.yaml --on local", "also what this machine refuses"),
    ),
    "convert": (
        ("tfjob convert old.yaml", "in kubeflow.org/v1"),
        ("tfjob convert tfjob.yaml --to v1beta2 -o json", "in another version"),
    ),
    "ps": (
        ("tfjob ps", "jobs"),
        ("tfjob ps -a -o wide", "also earlier runs, with more columns"),
        ("tfjob ps -w", "and how they change"),
    ),
    "status": (
        ("tfjob status mnist", "by name, or a unique beginning of it"),
        ("tfjob status @latest -o json", "the newest job, for scripts"),
    ),
    "logs": (
        ("tfjob logs mnist -f", "all replicas, until the job ends"),
        ("tfjob logs mnist worker-0 --tail 20", "the end of one"),
        ("tfjob logs mnist -p", "the attempt before the last"),
    ),
    "events": (("tfjob events mnist", "what happened, in order"),),
    "tensorboard": (
        ("tfjob tensorboard mnist", "until Ctrl-C"),
        ("tfjob tensorboard mnist --on k8s --port 7000", "of a job on a cluster"),
    ),
    "port-forward": (
        ("tfjob port-forward mnist 8080:6006", "the replica that represents the job"),
        ("tfjob port-forward mnist/ps-0 2222", "another replica, the same port here"),
        ("tfjob port-forward service/web :80 --on k8s", "any free port, to a Service of a cluster"),
    ),
    "wait": (
        ("tfjob wait mnist --timeout 1h", "until it has ended"),
        ("tfjob wait mnist --for running", "until it runs"),
    ),
    "stop": (("tfjob stop mnist", "tfjob resume mnist continues it"),),
    "suspend": (("tfjob suspend mnist", "tfjob resume mnist continues it"),),
    "resume": (("tfjob resume mnist", "in the background"),),
    "scale": (("tfjob scale mnist worker=4", "four workers from now on"),),
    "delete": (
        ("tfjob delete mnist", "asks if it still runs"),
        ("tfjob delete mnist.1 mnist.2 -y", "earlier runs, without a question"),
    ),
    "prune": (
        ("tfjob prune --dry-run", "what would go"),
        ("tfjob prune --older 7d", "what ended a week ago or earlier"),
    ),
    "exec": (
        ("tfjob exec mnist worker-0 -- nvidia-smi", "a command"),
        ("tfjob exec mnist worker-0 -- sh", "a shell"),
    ),
    "explain restarts": (("tfjob explain restarts", "the table that decides"),),
    "doctor": (
        ("tfjob doctor", "this machine"),
        ("tfjob doctor --on k8s", "a cluster, and your rights there"),
    ),
    "version": (("tfjob version --on k8s", "also the operator's"),),
    "completion": (
        ("tfjob completion bash", "print the script for bash"),
        ('eval "$(tfjob completion bash)"', "in ~/.bashrc; zsh in ~/.zshrc alike"),
        ("tfjob completion fish >~/.config/fish/completions/tfjob.fish", "fish, once"),
    ),
    "volume ls": (("tfjob volume ls", "claims, and where they lie"),),
    "volume delete": (("tfjob volume delete mnist-output", "asks first"),),
    "debug-dump": (("tfjob debug-dump mnist", "mnist-debug.tar.gz, here"),),
    "operator install": (("tfjob operator install --image REGISTRY/tf-job-operator:TAG", "CRD, rights, a Deployment"),),
    "operator uninstall": (("tfjob operator uninstall", "jobs stay"),),
    "operator manifests": (("tfjob operator manifests --image REGISTRY/tf-job-operator:TAG", "for kubectl apply"),),
    "operator run": (("tfjob operator run", "from a shell, with a kubeconfig"),),
    "operator self-test": (("tfjob operator self-test --image python:3.11-slim", "a job to its end"),),
}
"""By how a command is called: lines to type, and what they do."""


def epilog(path: str) -> str | None:
    """The examples of a command as the end of its help; None for a group."""
    if path not in EXAMPLES:
        return None
    width = max(len(line) for line, _ in EXAMPLES[path])
    lines = [f"  {line:<{width}}   {words}" for line, words in EXAMPLES[path]]
    return "\n".join(["\b", "Examples:", *lines])
