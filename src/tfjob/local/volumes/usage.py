"""Who uses a claim: the pods that have not ended."""

from __future__ import annotations

from tfjob.local.state.store import Store


def claim_users(store: Store, name: str = "") -> dict[tuple[str, str], list[str]]:
    """By namespace and claim, the pods that may be reading or writing it now; of one name, or of all."""
    users: dict[tuple[str, str], list[str]] = {}
    for pod in store.pods(name):
        if pod.status.phase in ("Succeeded", "Failed"):
            continue
        for volume in pod.spec.get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim:
                users.setdefault((pod.metadata.namespace, claim), []).append(pod.metadata.name)
    return users
