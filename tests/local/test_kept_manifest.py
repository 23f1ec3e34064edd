"""What the record of a run keeps of a manifest with Secrets in it."""

from __future__ import annotations

import json

import yaml

from tfjob.local.kept_manifest import without_secrets

MANIFEST = """\
# für alle
apiVersion: v1
kind: Secret
metadata:
  name: token
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"data": {"token": "c2VjcmV0MQ=="}}'}
data: {token: c2VjcmV0MQ==}
stringData:
  key: |
    secret2
      secret3
  other: "secret4" # a note
  many: >-
    secret5
    secret6
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {token: not hidden}
"""


def test_the_values_of_secrets_are_hidden_and_all_else_stays_word_for_word() -> None:
    kept = without_secrets(MANIFEST.encode()).decode()
    assert "secret" not in kept.replace("(secret)", "").replace("Secret", "")
    assert "c2VjcmV0MQ" not in kept
    secret, settings = yaml.safe_load_all(kept)
    assert secret["stringData"] == {"key": "(secret)", "other": "(secret)", "many": "(secret)"}
    assert settings["data"] == {"token": "not hidden"}
    assert kept.startswith("# für alle\n")
    assert "# a note" in kept
    assert kept[kept.index("---") :] == MANIFEST[MANIFEST.index("---") :]


def test_a_list_in_json_is_read_too() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "data": {"a": "eA=="}}
    kept = json.loads(without_secrets(json.dumps({"kind": "List", "items": [secret]}).encode()))
    assert kept["items"][0]["data"] == {"a": "(secret)"}


def test_a_manifest_without_secrets_is_not_touched() -> None:
    text = b"kind: TFJob\nspec: {a: 1}\n---\n---\n"
    assert without_secrets(text) == text
