"""Examples for the help of every command; the tests parse each of them."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES = {
    "init": (
        ("tfjob init", "write tfjob.yaml and train.py to this folder"),
        ("tfjob init single digits", "write the template `single` to the folder digits"),
        ("tfjob init --fast", "train for a few seconds only"),
    ),
    "run": (
        ("tfjob run tfjob.yaml", "run a manifest on this machine"),
        ("tfjob run train.py --workers 2 -- --epochs 3", "run a script with two workers"),
        ("tfjob run train.py --chief --workers 2 --ps 1 --dry-run -o yaml", "print the manifest of a script"),
        ("tfjob run tfjob.yaml --on k8s", "run a manifest on a cluster"),
    ),
    "submit": (
        ("tfjob submit tfjob.yaml", "run in the background"),
        ("tfjob submit tfjob.yaml --name second -p steps=500", "rename the job and set ${steps}"),
    ),
    "check": (
        ("tfjob check tfjob.yaml", "check the manifest itself"),
        ("tfjob check tfjob.yaml --on local", "also find fields that this machine does not support"),
        ("tfjob check train.py --chief --workers 2 --ps 1", "check a program for these replicas"),
    ),
    "convert": (
        ("tfjob convert old.yaml", "to kubeflow.org/v1"),
        ("tfjob convert tfjob.yaml --to v1beta2 -o json", "to another version, as JSON"),
    ),
    "ps": (
        ("tfjob ps", "list jobs"),
        ("tfjob ps -a -o wide", "include earlier runs, with more columns"),
        ("tfjob ps -w", "keep the list up to date"),
    ),
    "status": (
        ("tfjob status mnist", "by name or unique prefix"),
        ("tfjob status @latest -o json", "the newest job, as JSON"),
    ),
    "logs": (
        ("tfjob logs mnist -f", "follow all replicas until the job ends"),
        ("tfjob logs mnist worker-0 --tail 20", "the last 20 lines of one replica"),
        ("tfjob logs 'mnist-*' worker-0", "one replica of several jobs"),
        ("tfjob logs mnist -p", "the previous attempt"),
    ),
    "attach": (("tfjob attach mnist", "show its replicas and new lines; Ctrl-C detaches"),),
    "events": (("tfjob events mnist", "list events, the oldest first"),),
    "tensorboard": (
        ("tfjob tensorboard mnist", "serve until Ctrl-C"),
        ("tfjob tensorboard mnist --logdir curves", "show another folder"),
        ("tfjob tensorboard mnist --on k8s --port 7000", "for a job on a cluster"),
    ),
    "models ls": (
        ("tfjob models ls", "list the models of all jobs"),
        ("tfjob models ls -o json", "as JSON, with signatures and requests"),
    ),
    "models show": (
        ("tfjob models show mnist", "the newest model of a job"),
        ("tfjob models show /models/mnist/3", "a version in a folder"),
    ),
    "export": (
        ("tfjob export mnist --to /models/mnist", "publish the newest model as the next version"),
        ("tfjob export mnist --to /models/mnist --version 7", "as version 7"),
        ("tfjob export mnist --program model.py:build --to /models/mnist", "export the latest checkpoint"),
    ),
    "predict": (
        ("tfjob predict mnist --image 4.png", "print the class and the probabilities"),
        ("tfjob predict mnist --data-dir data", "print the error rate of the MNIST test images"),
        ("tfjob predict 127.0.0.1:9000/mnist --file batch.npy --json", "print the outputs for an array as JSON"),
    ),
    "port-forward": (
        ("tfjob port-forward mnist 8080:6006", "the chief, master or first worker"),
        ("tfjob port-forward mnist/ps-0 2222", "another replica, same local port"),
        ("tfjob port-forward service/web :80 --on k8s", "a Service on a cluster, any free local port"),
    ),
    "wait": (
        ("tfjob wait mnist --timeout 1h", "until it has ended, at most one hour"),
        ("tfjob wait mnist --for running", "until it runs"),
        ("tfjob wait 'mnist-*'", "until all of these jobs have ended"),
    ),
    "stop": (
        ("tfjob stop mnist", "continue later with tfjob resume mnist"),
        ("tfjob stop 'mnist-*' census", "several jobs by pattern and name"),
    ),
    "suspend": (("tfjob suspend mnist", "continue later with tfjob resume mnist"),),
    "resume": (("tfjob resume mnist", "continue in the background"),),
    "scale": (("tfjob scale mnist worker=4", "use four workers from now on"),),
    "delete": (
        ("tfjob delete mnist", "ask first if the job is still running"),
        ("tfjob delete mnist.1 mnist.2 -y", "delete earlier runs without asking"),
        ("tfjob delete 'mnist-*'", "ask, then delete all of these jobs"),
    ),
    "prune": (
        ("tfjob prune --dry-run", "list what would be deleted"),
        ("tfjob prune --older 7d", "delete runs that ended over a week ago"),
    ),
    "serve start": (
        ("tfjob serve mnist", "serve the model of a job"),
        ("tfjob serve ./models/mnist --port 9001 --rest-port 8502 --detach", "a folder, in the background"),
        ("tfjob serve mnist --on k8s --replicas 2", "with TensorFlow Serving on a cluster"),
    ),
    "serve status": (("tfjob serve status", "list model servers"),),
    "serve stop": (("tfjob serve stop mnist-serving", "end the server"),),
    "serve update": (("tfjob serve update mnist-serving --replicas 3 --on k8s", "change the number of pods"),),
    "exec": (
        ("tfjob exec mnist worker-0 -- nvidia-smi", "run a command"),
        ("tfjob exec mnist -- sh", "open a shell in the chief or the first worker"),
    ),
    "explain restarts": (("tfjob explain restarts", "print the restart rules"),),
    "explain errors": (("tfjob explain errors", "print the known errors"),),
    "doctor": (
        ("tfjob doctor", "check this machine"),
        ("tfjob doctor --on k8s", "check a cluster and your permissions"),
    ),
    "version": (("tfjob version --on k8s", "include the cluster and its operator"),),
    "completion": (
        ("tfjob completion bash", "print the script for bash"),
        ('eval "$(tfjob completion bash)"', "add this line to ~/.bashrc (zsh: ~/.zshrc)"),
        ("tfjob completion fish >~/.config/fish/completions/tfjob.fish", "install it for fish"),
    ),
    "volume ls": (("tfjob volume ls", "list claims and their folders"),),
    "volume delete": (("tfjob volume delete mnist-output", "delete the claim after asking"),),
    "debug-dump": (("tfjob debug-dump mnist", "write mnist-debug.tar.gz to this folder"),),
    "operator install": (
        ("tfjob operator install --image REGISTRY/tf-job-operator:TAG", "install CRD, RBAC and Deployment"),
    ),
    "operator uninstall": (("tfjob operator uninstall", "remove the operator, keep jobs"),),
    "operator manifests": (
        ("tfjob operator manifests --image REGISTRY/tf-job-operator:TAG", "print for kubectl apply"),
    ),
    "operator run": (("tfjob operator run", "run in a shell, with a kubeconfig"),),
    "operator self-test": (("tfjob operator self-test --image REGISTRY/tf-job-operator:TAG", "run a test job"),),
}
"""Command lines to type and what they do, by command."""


def epilog(path: str) -> str | None:
    if path not in EXAMPLES:
        return None
    return "\n".join(["\b", "Examples:", *listed(dict(EXAMPLES[path]))])


def listed(commands: Mapping[str, str]) -> list[str]:
    """Return indented lines with command lines and what they do."""
    width = max(map(len, commands))
    return [f"  {command:<{width}}   {words}" for command, words in commands.items()]
