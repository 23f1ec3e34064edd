from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from support.api.places import where
from support.golden import Wording, check_golden
from tfjob.api.manifest.loader import load
from tfjob.api.problems import InvalidManifest, Problem
from tfjob.api.problems import Path as NodePath

MANIFESTS = Path(__file__).parents[3] / "support" / "data" / "api" / "manifests"

JOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: ${name}
spec:
  tfReplicaSpecs:
    worker:
      replicas: ${workers}
      template:
        spec:
          containers:
            - image: tf:${tag}
              command: [sh, -c, "echo ${name} ${HOME}"]
"""


def test_a_manifest_gives_jobs_with_defaults_and_the_objects_beside_them() -> None:
    manifest = load((MANIFESTS / "v1-distributed.yaml").read_bytes(), "x.yaml")
    assert [job.metadata.name for job in manifest.jobs] == ["digits"]
    assert [one["kind"] for one in manifest.objects] == ["ConfigMap", "Secret", "PersistentVolumeClaim"]
    assert manifest.objects[1]["data"] == {"token": "c2VjcmV0"}
    assert manifest.jobs[0].spec.tf_replica_specs["Worker"].replicas == 2


def test_parameters_fill_in_values_also_numbers() -> None:
    manifest = load(JOB, "x.yaml", {"name": "digits", "workers": "3", "tag": "2"})
    manifest.raise_for_errors()
    (job,) = manifest.jobs
    worker = job.spec.tf_replica_specs["Worker"]
    assert (job.metadata.name, worker.replicas) == ("digits", 3)
    assert worker.template is not None
    assert worker.template["spec"]["containers"][0]["image"] == "tf:2"
    assert worker.template["spec"]["containers"][0]["command"][2] == "echo digits ${HOME}"


def test_a_parameter_that_nothing_uses_is_an_error(wording: Wording) -> None:
    manifest = load(JOB, "x.yaml", {"name": "a", "workers": "1", "tag": "2", "wrokers": "3"})
    (problem,) = manifest.errors
    assert "wrokers" in problem.message
    wording(problem)


def test_a_parameter_that_is_not_given_shows_where_it_is_needed(wording: Wording) -> None:
    problems = load(JOB, "x.yaml", {"name": "a", "workers": "two"}).errors
    assert [(problem.line, problem.column, problem.path) for problem in problems] == [
        (9, 7, "spec.tfReplicaSpecs.worker.replicas"),
        (13, 15, "spec.tfReplicaSpecs.worker.template.spec.containers[0].image"),
    ]
    assert "-p tag=" in problems[1].hint
    wording(*problems)


def test_the_only_job_can_be_renamed() -> None:
    manifest = load((MANIFESTS / "batch-job.yaml").read_text(), name="other")
    assert [job.metadata.name for job in manifest.jobs] == ["other"]
    assert manifest.problems == []


def test_the_items_of_a_list_are_read_with_their_places(wording: Wording) -> None:
    manifest = load((MANIFESTS / "list.yaml").read_text())
    (job,) = manifest.jobs
    assert job.metadata.name == "first"
    assert where(manifest.entries[0], "spec.tfReplicaSpecs.Worker.replicas") == (
        30,
        11,
        "items[0].spec.tfReplicaSpecs.Worker.replicas",
    )
    (problem,) = load("{kind: List, apiVersion: v1, items: [3]}").errors
    assert (problem.line, problem.column, problem.path) == (1, 38, "items[0]")
    wording(problem)


def test_other_code_can_place_its_own_problems() -> None:
    manifest = load(JOB, "x.yaml", {"name": "a", "workers": "1", "tag": "2"})
    problem = Problem("spec.tfReplicaSpecs.Worker.template.spec.containers[0].image", "is not here", "add it")
    assert str(manifest.entries[0].located(problem)) == (
        "x.yaml:13:15: spec.tfReplicaSpecs.worker.template.spec.containers[0].image: is not here; add it"
    )


def test_errors_are_raised_together_and_warnings_are_not() -> None:
    text = JOB.replace("template:", "other: 1\n      tmplate:")
    with pytest.raises(InvalidManifest) as error:
        load(text, "x.yaml", {"name": "a", "workers": "1", "tag": "2"}).raise_for_errors()
    assert [problem.path for problem in error.value.problems] == [
        "spec.tfReplicaSpecs.worker.other",
        "spec.tfReplicaSpecs.worker.tmplate",
    ]
    load(JOB.replace("command:", "comand:"), "", {"name": "a", "workers": "1", "tag": "2"}).raise_for_errors()


def test_two_jobs_of_one_name_are_refused(wording: Wording) -> None:
    filled = {"name": "a", "workers": "1", "tag": "2"}
    (problem,) = load(f"{JOB}---{JOB}", "x", filled).errors
    assert (problem.line, problem.column, problem.path) == (19, 3, "metadata.name")
    assert "line 5" in problem.message
    wording(problem)


@pytest.mark.parametrize("kind", ["TfJob", "tfjob", "Tfjob"])
def test_a_kind_of_the_same_version_in_another_case_is_suggested(kind: str, wording: Wording) -> None:
    (problem,) = load(f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: a}}\n", "x").errors
    assert (problem.line, problem.column, problem.path) == (2, 1, "kind")
    assert "kind: TFJob" in problem.hint
    wording(problem)


def test_a_job_with_a_generate_name_only_needs_a_name(wording: Wording) -> None:
    text = JOB.replace("name: ${name}", "generateName: a-")
    assert text != JOB
    (problem,) = load(text, "x", {"workers": "1", "tag": "2"}).errors
    assert problem.path == "metadata.name"
    assert "generateName" in problem.hint
    wording(problem)


@pytest.mark.parametrize(
    ("used", "warned"),
    [("output", []), ("ouput", ["claimName"]), ("models", [])],
)
def test_a_misspelled_claim_of_the_manifest_is_a_warning(used: str, warned: list[str], wording: Wording) -> None:
    text = (MANIFESTS / "v1-distributed.yaml").read_text()
    problems = load(text.replace("claimName: output", f"claimName: {used}")).problems
    found = [one for one in problems if one.path.startswith("spec.tfReplicaSpecs.Chief") and "claim" in one.message]
    assert [one.path.rpartition(".")[2] for one in found] == warned
    assert all(one.warning for one in found)
    wording(*found)


def test_a_template_that_aliases_share_is_never_changed() -> None:
    text = (MANIFESTS / "v1-distributed.yaml").read_text()
    manifest = load(text)
    written = manifest.entries[0].written.spec.tf_replica_specs["Chief"].template
    assert written is not None
    assert "ports" not in written["spec"]["containers"][0]


def test_loading_a_long_manifest_is_quick() -> None:
    text = (
        (MANIFESTS / "v1-distributed.yaml").read_bytes() + b"---\n" + (MANIFESTS / "v1alpha1-stored.yaml").read_bytes()
    )
    assert text.count(b"\n") > 100
    load(text)
    begin = time.process_time()
    for _ in range(5):
        load(text)
    assert (time.process_time() - begin) / 5 < 0.03


# --- the complete error list of each broken manifest, and no problem in any of the good ones --------------------------

HERE = Path(__file__).parents[3] / "support" / "data" / "api"
GOLDEN = HERE / "golden" / "broken"
BROKEN = sorted((HERE / "broken").iterdir())
GOOD = sorted((HERE / "manifests").iterdir())


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_manifest_gets_the_error_list_of_its_golden_file(path: Path) -> None:
    problems = load(path.read_bytes(), path.name).problems
    check_golden(GOLDEN / f"{path.stem}.txt", "".join(f"{problem}\n" for problem in problems))


def test_every_golden_file_belongs_to_a_broken_manifest() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {path.stem for path in BROKEN}


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_manifest_has_no_problems(path: Path) -> None:
    manifest = load(path.read_bytes(), path.name)
    manifest.raise_for_errors()
    assert manifest.jobs
    assert manifest.problems == []


# --- whatever stands in a manifest, loading it gives problems and never an exception ----------------------------------

ODD: list[Any] = [None, -1, 1.5, True, "", "x", [], {}, [None], [[]], {"name": None}, 10**30]
TEXTS = [path.read_bytes() for folder in ("manifests", "broken") for path in sorted((HERE / folder).iterdir())]


def nodes(value: Any, path: NodePath = ()) -> Iterator[NodePath]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in children:
        yield (*path, key)
        yield from nodes(item, (*path, key))


def replaced(value: Any, path: NodePath, item: Any) -> Any:
    whole = copy.deepcopy(value)
    node = whole
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = item
    return whole


@pytest.mark.parametrize("name", ["v1-single.json", "v1beta1-master.yaml", "v1alpha1-stored.yaml", "batch-job.yaml"])
def test_any_node_may_be_replaced_by_anything(name: str) -> None:
    value = yaml.safe_load((HERE / "manifests" / name).read_text().replace("\t", " ").replace("\\ud83d\\ude00", ""))
    for path in nodes(value):
        for odd in ODD:
            manifest = load(json.dumps(replaced(value, path, odd), default=str), name)
            assert all(problem.line for problem in manifest.problems)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(TEXTS), st.integers(0, 2000), st.integers(0, 20), st.binary(max_size=6))
def test_any_bytes_may_be_replaced_by_any_others(text: bytes, start: int, length: int, put: bytes) -> None:
    load(text[:start] + put + text[start + length :], "x.yaml", {"name": "x"})


@given(st.binary(max_size=60))
def test_any_bytes_may_be_loaded(data: bytes) -> None:
    assert load(data).problems


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: LABEL}}
    spec: {containers: [{name: web, image: web}], FIELD: 1}
"""


def test_a_deployment_is_read_without_a_job() -> None:
    manifest = load(DEPLOYMENT.replace("LABEL", "web").replace("FIELD", "terminationGracePeriodSeconds"))
    assert manifest.problems == []
    assert manifest.jobs == []
    ((document, _),) = manifest.deployments
    assert document["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("label", "field", "path", "line"),
    [
        ("wob", "terminationGracePeriodSeconds", "spec.template.metadata.labels", 9),
        ("web", "terminationGrace", "spec.template.spec.terminationGrace", 10),
    ],
)
def test_what_is_wrong_with_a_deployment_has_its_place(label: str, field: str, path: str, line: int) -> None:
    (problem,) = load(DEPLOYMENT.replace("LABEL", label).replace("FIELD", field)).problems
    assert (problem.path, problem.line) == (path, line)


@pytest.mark.parametrize("version", ["extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"])
@pytest.mark.parametrize("selector", ["", "  selector: {matchLabels: {app: web}}\n"])
def test_a_deployment_of_a_removed_version_is_read_as_one_of_apps_v1(version: str, selector: str) -> None:
    text = DEPLOYMENT.replace("LABEL", "web").replace("FIELD", "terminationGracePeriodSeconds")
    text = text.replace("  selector: {matchLabels: {app: web}}\n", f"{selector}  rollbackTo: {{revision: 0}}\n")
    manifest = load(text.replace("apps/v1", version))
    ((document, _),) = manifest.deployments
    assert document["apiVersion"] == "apps/v1"
    assert document["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    assert "rollbackTo" not in document["spec"]
    (warning,) = manifest.problems
    assert (warning.path, warning.line, warning.warning) == ("apiVersion", 2, True)
    assert version in warning.message


def test_a_removed_version_does_not_hide_what_is_wrong_with_a_deployment() -> None:
    text = DEPLOYMENT.replace("apps/v1", "extensions/v1beta1").replace("  selector: {matchLabels: {app: web}}\n", "")
    manifest = load(text.replace("{labels: {app: LABEL}}", "{}").replace("FIELD", "terminationGracePeriodSeconds"))
    assert [problem.path for problem in manifest.errors] == ["spec.selector"]
    (problem,) = load("apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: x}\nspec: 3\n").errors
    assert problem.path == "spec"
