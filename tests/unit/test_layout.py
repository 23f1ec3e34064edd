"""Every module has one obvious test file: `test_<module>.py` in a folder of its room, or the one that a table names."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES, TESTS = ROOT / "src" / "tfjob", ROOT / "tests"
TIERS = ("unit", "local", "cluster", "node", "long")
PROGRAMS = ("templates", "programs", "plan/build/programs")
"""Folders of programs for users and for their images."""
COMMANDS = "cli/commands"
"""Of these `test_commands.py` wants a golden output each."""
ELSEWHERE = {
    "unit/api/crd/test_tfjob.py": "api/schema/descriptions",
    "unit/api/schema/test_checker.py": "api/suggest",
    "unit/api/versions/test_round_trip.py": "api/versions/registry",
    "unit/api/versions/test_v1.py": "api/conversion api/objects api/types",
    "unit/plan/build/test_pods.py": "api/names plan/build/settings",
    "unit/controller/test_controller.py": "controller/actions controller/cluster controller/hooks controller/kind",
    "unit/jobs/test_portal.py": "jobs/sync_backend",
    "unit/records/test_job_records.py": "records/log_files records/pods",
    "unit/kube/access/test_config.py": "kube/access/credentials kube/access/kubeconfig",
    "unit/kube/http/test_pool.py": "kube/http/connection kube/http/session",
    "unit/kube/jobs/test_jobs.py": "kube/client/patches",
    "unit/launch/test_cluster.py": "kube/submit/preflight kube/submit/submission",
    "unit/local/inputs/test_environment.py": "local/inputs/references",
    "unit/local/run/test_deployments.py": "api/deployments",
    "unit/local/state/test_store.py": "local/state/database",
    "unit/local/volumes/test_volumes.py": "local/volumes/job_storage local/volumes/projection",
    "unit/cli/terminal/test_screen.py": "cli/terminal/terminal",
    "local/client/test_client.py": "aio",
    "local/cli/test_cluster_dry_run.py": "cli/terminal/preview",
    "local/cli/test_attach.py": "launch/watch",
    "local/cli/test_commands.py": "api/text/writer cli/terminal/job_table cli/terminal/lines",
    "local/cli/test_errors.py": "cli/main",
    "local/cli/test_json.py": "cli/output jobs/output",
    "local/cli/test_signals.py": "cli/terminal/attach launch/background launch/drive",
    "local/conformance/test_conformance_local.py": "local/pod/assembly local/pod/machine",
    "local/faults/test_state_folder.py": "local/state/home",
    "local/launch/test_local.py": (
        "launch/prepare launch/start launch/target local/jobs/runs local/jobs/submission local/run/pod_folder"
    ),
    "local/serve/test_serve.py": "serve/request",
    "local/run/test_tree.py": "local/run/driver local/run/lifetime local/state/options",
    "local/sandbox/test_capabilities.py": "local/sandbox/syscalls",
    "local/sandbox/test_supervisor_ends.py": (
        "local/sandbox/container local/sandbox/pod_files local/sandbox/pod_process local/sandbox/pod_spec "
        "local/sandbox/supervised_container"
    ),
    "local/serve/test_job_models.py": "local/jobs/places serve/checkpoints",
    "local/warm/test_program.py": "local/warm/fork_server",
    "unit/operator/webhook/test_admission.py": "operator/webhook/reviews",
    "cluster/cli/test_commands_control_plane.py": "kube/jobs/backend",
    "cluster/operator/install/test_installation.py": "operator/install/cluster_checks operator/install/rollout",
    "cluster/operator/install/test_server_webhook.py": "operator/webhook/server",
    "cluster/operator/test_operator_start.py": (
        "operator/process/logs operator/process/manager operator/process/metrics operator/servers"
    ),
    "node/cli/test_commands_tensorboard.py": "kube/jobs/tensorboard",
}
"""Files below `tests` that test modules of other names, with these modules, for those without a file of their name."""
NAMED = {module for modules in ELSEWHERE.values() for module in modules.split()}


def test_every_module_has_one_obvious_test_file() -> None:
    modules = set(source_modules())
    missing = sorted(module for module in modules - NAMED if not has_own_file(module, modules))
    assert not missing, f"write test_<module>.py in a folder of the room, or add a line to ELSEWHERE: {missing}"


def test_the_table_names_what_is_there() -> None:
    files = sorted(file for file in ELSEWHERE if not (TESTS / file).exists())
    assert not files, f"moved or removed: change ELSEWHERE: {files}"
    modules = sorted(NAMED - set(source_modules()))
    assert not modules, f"renamed or merged: change ELSEWHERE: {modules}"


def source_modules() -> list[str]:
    """Return the modules, as paths below the package; commands and programs for users have tests of another kind."""
    found = [path.relative_to(SOURCES).with_suffix("").as_posix() for path in SOURCES.rglob("*.py")]
    return [
        name
        for name in found
        if not name.endswith(("__init__", "__main__")) and not name.startswith((COMMANDS, *PROGRAMS))
    ]


def has_own_file(module: str, modules: set[str]) -> bool:
    """Tell whether a folder of the room has `test_<module>.py`, or a part of it, `test_<module>_<part>.py`."""
    folder, _, name = module.rpartition("/")
    neighbours = {one.rpartition("/")[2] for one in modules if one.rpartition("/")[0] == folder}
    room = module.partition("/")[0] if folder else ""
    for tier in TIERS:
        for path in (TESTS / tier).rglob(f"test_{name}*.py"):
            part = path.stem.removeprefix(f"test_{name}")
            is_ours = not part or (part.startswith("_") and name + part not in neighbours)
            if is_ours and room in ("", *path.relative_to(TESTS).parts):
                return True
    return False
