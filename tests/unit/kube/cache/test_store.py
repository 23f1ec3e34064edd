from __future__ import annotations

from tfjob.api.objects import ObjectMeta, Pod
from tfjob.kube.cache.store import ObjectStore

Change = tuple[str, str]


def make(name: str, version: str = "1", *, uid: str = "", job: str = "") -> Pod:
    labels = {"job": job} if job else {}
    return Pod(
        metadata=ObjectMeta(namespace="team", name=name, uid=uid or name, resource_version=version, labels=labels)
    )


def recorded() -> tuple[ObjectStore[Pod], list[Change]]:
    changes: list[Change] = []
    store = ObjectStore[Pod](
        lambda pod: pod.metadata.labels.get("job"), lambda old, new: changes.append((told(old), told(new)))
    )
    return store, changes


def told(pod: Pod | None) -> str:
    return f"{pod.metadata.uid}@{pod.metadata.resource_version}" if pod else ""


def names(pods: list[Pod]) -> list[str]:
    return sorted(pod.metadata.name for pod in pods)


def test_an_object_is_found_by_its_name_and_under_its_key() -> None:
    store, changes = recorded()
    store.put(make("a", job="x"))
    store.put(make("b", job="x"))
    store.put(make("c"))
    assert store.get("team", "a") == make("a", job="x")
    assert store.get("other", "a") is None
    assert names(store.by_index("x")) == ["a", "b"]
    assert store.by_index("y") == []
    assert store.by_index(None) == []
    assert names(store.all()) == ["a", "b", "c"]
    assert changes == [("", "a@1"), ("", "b@1"), ("", "c@1")]


def test_an_object_that_changes_its_key_moves() -> None:
    store, changes = recorded()
    store.put(make("a", job="x"))
    store.put(make("a", "2", job="y"))
    assert store.by_index("x") == []
    assert names(store.by_index("y")) == ["a"]
    store.put(make("a", "3"))
    assert store.by_index("y") == []
    assert changes[1:] == [("a@1", "a@2"), ("a@2", "a@3")]


def test_a_removed_object_is_reported_in_its_final_state() -> None:
    store, changes = recorded()
    store.put(make("a", job="x"))
    store.remove("team", "a", make("a", "9", job="x"))
    store.remove("team", "a")
    assert (store.all(), store.by_index("x")) == ([], [])
    assert changes == [("", "a@1"), ("a@9", "")]


def test_an_unchanged_object_is_reported_once() -> None:
    store, changes = recorded()
    store.put(make("a"))
    store.put(make("a"))
    assert changes == [("", "a@1")]


def test_a_replaced_object_is_reported_as_removed_and_added() -> None:
    store, changes = recorded()
    store.put(make("a", uid="first", job="x"))
    store.put(make("a", "2", uid="second", job="y"))
    assert changes == [("", "first@1"), ("first@1", ""), ("", "second@2")]
    assert store.by_index("x") == []


def test_a_new_list_reports_additions_changes_and_removals() -> None:
    store, changes = recorded()
    for name in ("same", "changed", "gone", "unreadable"):
        store.put(make(name))
    changes.clear()
    store.replace([make("same"), make("changed", "2"), make("new")], kept=[("team", "unreadable")])
    assert changes == [("changed@1", "changed@2"), ("", "new@1"), ("gone@1", "")]
    assert names(store.all()) == ["changed", "new", "same", "unreadable"]
