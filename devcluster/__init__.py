"""A real Kubernetes on this machine, for development and tests: `python -m devcluster --help`.

    python -m devcluster up                              etcd, API server, controllers, scheduler; needs no root
    python -m devcluster up --profile node --nodes 3     also nodes that run real pods; needs root
    eval "$(python -m devcluster env)"                   kubectl and KUBECONFIG in this shell
    python -m devcluster down                            leaves nothing behind

Modules, from the command down: `cluster` (up, down), `control_plane`, `node`, `network`, `room` (a process tree in
separate namespaces), `state` (folder, lock, processes), `build` and `debian` (binaries), `versions` (every pin).
"""
