"""TFJobs of kubeflow.org and TfJobs of tensorflow.org on one API server: each group has its own jobs."""

from __future__ import annotations

from pathlib import Path

from devcluster.client import Client
from support.cluster_line import on_cluster
from support.installed import Installed
from support.operating import operating
from support.room import job as v1_job
from support.room import room
from support.running import wait_until
from support.served import serve_tf_jobs, serve_tfjobs
from support.tf_jobs import begin, pods, replica, tf_job, until
from tfjob.api.dialect import TF_JOBS


def test_with_both_groups_each_kind_has_its_own_jobs_and_the_commands_show_all(
    own_cluster: Client, tool: Installed, tmp_path: Path
) -> None:
    serve_tfjobs(own_cluster)
    serve_tf_jobs(own_cluster)
    namespace = own_cluster.namespace()
    config = own_cluster.kubeconfig
    with room(config, namespace) as team, operating(config, f"--namespace={namespace}"):
        team.create(v1_job("same", worker=1))
        runtime_id = begin(team, tf_job("same", replica("MASTER")), "master-0")
        team.all_run("same", "worker-0")

        lines = own_cluster.kubectl("get", "tfjobs.tensorflow.org", "-n", namespace).splitlines()
        assert lines[1].split()[:4] == ["same", "Running", "Running", runtime_id]
        assert own_cluster.kubectl("get", "tfja", "-n", namespace).splitlines()[0].split()[1] == "PHASE"
        assert own_cluster.kubectl("get", "tfjob", "-n", namespace).splitlines()[0].split()[1] == "STATE"

        command = on_cluster(tool, config, namespace, tmp_path)
        listed = command("ps")
        assert [line.split()[0] for line in listed.splitlines()[1:]] == ["same", "tfja/same"]
        assert "master-0" in command("status", "tfja/same")
        assert "worker-0" in command("status", "same")

        command("stop", "tfja/same")
        status = until(team, "same", phase="Creating", state="Running")
        assert status["reason"] == "Stopped"
        assert pods(team, "same") == {}
        command("resume", "tfja/same")
        wait_until(lambda: len(pods(team, "same")) == 1, 90)
        assert team.get(TF_JOBS, "same")["spec"]["RuntimeId"] == runtime_id
        command("delete", "-y", "tfja/same")
        assert team.find(TF_JOBS, "same") is None
        team.until("same", "Running")


def test_an_operator_of_one_group_leaves_the_jobs_of_the_other_alone(own_cluster: Client) -> None:
    """Its rights are for that group, and CRDs stay where the setting changes."""
    serve_tfjobs(own_cluster)
    serve_tf_jobs(own_cluster)
    config, namespace = own_cluster.kubeconfig, own_cluster.namespace()
    with room(config, namespace) as team:
        team.make(TF_JOBS, tf_job("left-alone", replica("MASTER")))
        team.create(v1_job("seen", worker=1))
        with operating(config, f"--namespace={namespace}", "--api-groups=kubeflow.org") as operator:
            team.until_pods("seen", "worker-0")
            assert {labels["resource"] for labels, _ in operator.samples("tfjob_cached_objects")} >= {"tfjobs", "pods"}
            assert not operator.said("tensorflow.org")
        assert "status" not in team.get(TF_JOBS, "left-alone")
