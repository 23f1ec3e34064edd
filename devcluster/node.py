"""A node: containerd, kubelet and kube-proxy in a room."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from devcluster import build, cgroups, debian, images, parts, room
from devcluster.cache import built
from devcluster.control_plane import ControlPlane, arguments, ask
from devcluster.errors import Refused, tail
from devcluster.network import Network
from devcluster.room import HOME, Process, Room
from devcluster.state import Folder

SOCKET = "/run/containerd/containerd.sock"
PREFIX = "node-"
COVERED = ("/var/lib", "/var/log")
"""Folders in which these programs keep state regardless of their settings (`/var/lib/cni`, `/var/log/containers`)."""
PRETENDED = {
    "/proc/sys/vm/overcommit_memory": "1",
    "/proc/sys/vm/panic_on_oom": "0",
    "/proc/sys/kernel/panic": "10",
    "/proc/sys/kernel/panic_on_oops": "1",
    "/proc/sys/kernel/keys/root_maxkeys": "1000000",
    "/proc/sys/kernel/keys/root_maxbytes": "25000000",
}
"""Machine-wide settings that a kubelet would change; the room shows it files with the values it wants."""


class Node:
    """One node of a cluster, by number."""

    def __init__(self, folder: Folder, network: Network, number: int) -> None:
        self.folder = folder
        self.network = network
        self.number = number
        self.name = f"{PREFIX}{number}"
        self._begun = ""

    def register(self, plane: ControlPlane) -> None:
        plane.kubeconfig(f"{self.name}.kubelet", f"system:node:{self.name}", "system:nodes")
        plane.kubeconfig(f"{self.name}.proxy", "system:kube-proxy")

    def start(self, switch: int, nodes: int) -> None:
        """Open the room and start the node's programs; the node is not ready yet."""
        self._begun = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        mine = Room(self.folder, self.name)
        self.network.plug(switch, mine, self.number, nodes)
        tree, programs = debian.tree(), build.programs(parts.NODE)
        env = tree.environment()
        group = cgroups.make(self.folder, self.name, mine.pid)
        self._write(mine.folder, tree, group)
        kubelet = arguments(
            {
                "kubeconfig": self.folder / f"{self.name}.kubelet",
                "config": HOME / "kubelet.json",
                "root_dir": HOME / "kubelet",
                "hostname_override": self.name,
                "node_ip": self.network.node(self.number),
            }
        )
        kube_proxy = arguments(
            {
                "kubeconfig": self.folder / f"{self.name}.proxy",
                "hostname_override": self.name,
                "proxy_mode": "iptables",
                "cluster_cidr": self.network.all_pods,
                # The settings of connection tracking are machine-wide: 0 leaves them unchanged.
                "conntrack_max_per_core": 0,
                "conntrack_tcp_timeout_established": 0,
                "conntrack_tcp_timeout_close_wait": 0,
            }
        )
        mine.begin(
            [
                Process("containerd", [tree.program("containerd"), "--config", HOME / "containerd.toml"], env),
                Process("kube-proxy", [programs["kube-proxy"], *kube_proxy], env),
                Process("kubelet", [programs["kubelet"], *kubelet], env, after=SOCKET),
            ],
            covered=COVERED,
            pretended=PRETENDED,
        )

    def await_ready(self) -> None:
        """Load the node's basic images and wait until the API server reports it ready."""
        self._wait("containerd", lambda: loads(self.folder, self.name, own_images()))
        self._wait("kubelet", self._is_ready)

    def _write(self, place: Path, tree: debian.Tree, group: str) -> None:
        (place / "cni").mkdir(exist_ok=True)
        (place / "cni" / "10-devcluster.conflist").write_text(json.dumps(self._cni()))
        (place / "containerd.toml").write_text(
            _CONTAINERD.format(home=HOME, socket=SOCKET, cni=tree.cni, pause=images.PAUSE)
        )
        (place / "resolv.conf").write_text(f"nameserver {self.network.dns}\n")
        (place / "kubelet.json").write_text(json.dumps(self._kubelet(group), indent=1))

    def _kubelet(self, group: str) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.folder / "pki" / "ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": group,
            "clusterDNS": [self.network.dns],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "enforceNodeAllocatable": [],
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "failCgroupV1": False,
            "failSwapOn": False,
            "healthzPort": 0,
            "imageGCHighThresholdPercent": 100,  # there is no registry to pull a collected image from again
            "imageGCLowThresholdPercent": 99,
            "kubeAPIQPS": 200,
            "kubeAPIBurst": 400,
            "maxPods": 200,
            "readOnlyPort": 0,
            "resolvConf": str(HOME / "resolv.conf"),
            "serializeImagePulls": False,
            "volumePluginDir": str(HOME / "volume-plugins"),
        }

    def _cni(self) -> dict[str, Any]:
        addresses = {"type": "host-local", "ranges": [[{"subnet": self.network.pods(self.number)}]]}
        bridge = {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipMasq": False,
            "hairpinMode": True,
            "ipam": {**addresses, "routes": [{"dst": "0.0.0.0/0"}]},
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        return {"cniVersion": "0.4.0", "name": "devcluster", "plugins": [bridge, ports]}

    def _is_ready(self) -> bool:
        """Return whether a heartbeat since this start reports the node ready."""
        answer = json.loads(ask(self.folder, f"/api/v1/nodes/{self.name}") or "{}")
        conditions = answer.get("status", {}).get("conditions", [])
        ready = [one["lastHeartbeatTime"] for one in conditions if one["type"] == "Ready" and one["status"] == "True"]
        return any(heard >= self._begun for heard in ready)

    def _wait(self, process: str, ready: Callable[[], bool], patience: float = 180) -> None:
        logs = [self.folder.logs / f"{self.name}{suffix}.log" for suffix in ("", f"-{process}")]
        deadline = time.monotonic() + patience
        while not ready():
            ended = f"{process} ended" in logs[0].read_text() or self.name not in running(self.folder)
            if ended or time.monotonic() > deadline:
                what = "has exited" if ended else f"is not ready after {patience:.0f} s"
                ends = "\n".join(map(tail, logs))
                raise Refused(f"{process} of {self.name} {what}; the logs end with:\n{ends}")
            time.sleep(0.1)


def running(folder: Folder) -> list[str]:
    return [one.name for one in folder.started() if one.name.startswith(PREFIX) and one.alive()]


def load(folder: Folder, name: str, archive: Path) -> None:
    tree = debian.tree()
    command = [str(tree.program("ctr")), "--address", SOCKET, "--namespace", "k8s.io", "images", "import", "-"]
    with archive.open("rb") as content:
        room.enter(room.find(folder, name).pid, command, tree.environment(), stdin=content)


def loads(folder: Folder, name: str, archives: list[Path]) -> bool:
    """Import archives into a node; return False if containerd does not listen yet."""
    if not Path(f"/proc/{room.find(folder, name).pid}/root{SOCKET}").exists():
        return False
    for archive in archives:
        load(folder, name, archive)
    return True


def own_images() -> list[Path]:
    """Return the archives of the images that every node has."""
    pause = build.binaries(parts.PAUSE) / "pause"
    busybox = debian.tree().program("busybox")

    def write(place: Path) -> None:
        images.write(place / "pause.tar", images.PAUSE, {"pause": pause}, ["/pause"])
        images.write_busybox(place / "busybox.tar", busybox)

    key = hashlib.sha256(Path(images.__file__).read_bytes() + busybox.read_bytes()).hexdigest()[:8]
    folder = built(f"images-{key}", write)
    return [folder / "pause.tar", folder / "busybox.tar"]


_CONTAINERD = """\
version = 2
root = "{home}/containerd"
state = "/run/containerd"
# These plugins would make folders on the machine, or look for file systems that are not in use.
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without CAP_SYS_RESOURCE, which CI containers lack, runc cannot lower a score and fails.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{home}/cni"
"""
