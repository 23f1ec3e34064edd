"""Conformance cases: what a cluster must do with a job, written once for every cluster that runs TFJobs."""

from __future__ import annotations

from support.conformance import scripts
from support.conformance.case import Case
from support.conformance.checks import (
    attempts,
    both,
    bounded,
    failed,
    gone,
    greeted,
    refused,
    said,
    sooner_than,
    succeeded,
    task_restarts,
)
from support.conformance.manifests import (
    GANG,
    batch_job,
    files_job,
    missing_program,
    old_job,
    remembering,
    replica,
    several_containers,
    tfjob,
)

FULL = ("full",)
"""For cases in which it does not matter how far replicas are separated."""

CASES = [
    Case(
        "a chief's exit 0 ends the job though workers and servers run on",
        [
            tfjob(
                "chief",
                {
                    "Chief": replica("sleep", "0.2"),
                    "Worker": replica("sleep", "3600", count=2),
                    "PS": replica("deaf", "sleep", "3600"),
                },
            )
        ],
        both(succeeded(), sooner_than(1800)),
    ),
    Case(
        "without a chief worker 0 decides",
        [tfjob("first", {"Worker": replica("sleep", "0.2", count=1), "PS": replica("sleep", "3600")})],
        succeeded(),
    ),
    Case(
        "successPolicy AllWorkers waits for every worker",
        [tfjob("everyone", {"Worker": replica("sleep", "0.2", "say", "done", count=3)}, successPolicy="AllWorkers")],
        both(succeeded(), said("worker-2", "done")),
    ),
    Case(
        "a single replica gets no TF_CONFIG",
        [tfjob("single", {"Worker": replica("config")})],
        both(succeeded(), said("worker-0", "no TF_CONFIG")),
    ),
    Case(
        "every replica listens on the port of TF_CONFIG and finds every peer there",
        [
            tfjob(
                "peers",
                {
                    "Chief": replica("serve", "meet", "sleep", "1"),
                    "Worker": replica("serve", "meet", "sleep", "3600", count=2),
                    "PS": replica("serve", "meet", "sleep", "3600"),
                },
            )
        ],
        both(succeeded(), said("chief-0", "met 3")),
    ),
    Case(
        "an evaluator finds itself in TF_CONFIG and nobody else does",
        [
            tfjob(
                "judge",
                {
                    "Chief": replica("serve", "meet", "sleep", "1"),
                    "PS": replica("serve", "meet", "sleep", "3600"),
                    "Evaluator": replica("serve", "sleep", "3600"),
                },
                runPolicy={"evaluatorGraceSeconds": 0},
            )
        ],
        both(succeeded(), said("chief-0", "met 1")),
    ),
    Case(
        "an evaluator may finish after the chief, while the workers stop",
        [
            tfjob(
                "evaluated",
                {
                    "Chief": remembering("until", "/shared/evaluating"),
                    "Worker": replica("sleep", "3600"),
                    "Evaluator": remembering(
                        *("make", "/shared/evaluating", "until", "/shared/evaluated", "say", "last step evaluated"),
                    ),
                },
            )
        ],
        both(succeeded(), said("evaluator-0", "last step evaluated")),
        levels=FULL,
        script=scripts.let_evaluator_end,
    ),
    Case(
        "a program that exits 3 fails the job, with its last line as the verdict",
        [tfjob("three", {"Worker": replica("say", "no such column: age", "exit", "3")})],
        failed("worker-0", 3, last="no such column: age"),
    ),
    Case(
        "a missing program fails the job and names it",
        missing_program("missing", "Never"),
        failed("worker-0", 127, 128, reason="StartError"),
    ),
    Case(
        "a missing program is not tried again under ExitCode",
        missing_program("nowhere", "ExitCode"),
        failed("worker-0", 127, 128, reason="StartError", restarts=0),
    ),
    Case(
        "under Never a killed replica fails the job",
        [tfjob("never", {"Worker": replica("kill", "SIGKILL")})],
        failed("worker-0", 137, signal="SIGKILL"),
    ),
    Case(
        "under ExitCode a signal is tried again",
        [tfjob("again", {"Worker": remembering("once", "/shared/again", "kill", "SIGTERM", policy="ExitCode")})],
        succeeded(restarts=1),
    ),
    Case(
        "under ExitCode a code below 128 is final",
        [tfjob("final", {"Worker": replica("exit", "1", policy="ExitCode")})],
        failed("worker-0", 1),
    ),
    Case(
        "under OnFailure the replica restarts in place",
        [tfjob("place", {"Worker": remembering("once", "/shared/place", "exit", "1", policy="OnFailure")})],
        both(succeeded(restarts=1), attempts(worker_0=2)),
    ),
    Case(
        "under OnFailure a killed replica restarts in place too, and one that ran out of memory",
        [
            tfjob(
                "places",
                {
                    "Chief": remembering(
                        *("until", "/shared/killed", "until", "/shared/starved", "until", "/shared/places-told"),
                        policy="OnFailure",
                    ),
                    "PS": remembering(
                        *("first", "/shared/kill", "kill", "SIGKILL"),
                        *("make", "/shared/killed", "sleep", "3600"),
                        policy="OnFailure",
                    ),
                    "Worker": remembering(
                        *("first", "/shared/starve", "eat", "400"),
                        *("make", "/shared/starved", "sleep", "3600"),
                        policy="OnFailure",
                        resources={"limits": {"memory": "100Mi"}},
                    ),
                },
            )
        ],
        both(succeeded(restarts=2), task_restarts(ps_0=1, worker_0=1)),
        levels=FULL,
        script=scripts.end_when_restarts_are_told(2),
    ),
    Case(
        "under Always a replica restarts in place whatever its exit code, 0 too",
        [
            tfjob(
                "always",
                {
                    "Chief": remembering(
                        *("until", "/shared/zero", "until", "/shared/one", "until", "/shared/signal"),
                        *("until", "/shared/always-told"),
                    ),
                    "PS": remembering(
                        *("first", "/shared/exits-0", "exit", "0", "make", "/shared/zero", "sleep", "3600"),
                        policy="Always",
                    ),
                    "Evaluator": remembering(
                        *("first", "/shared/exits-1", "exit", "1", "make", "/shared/one", "sleep", "3600"),
                        policy="Always",
                    ),
                    "Worker": remembering(
                        *("first", "/shared/dies", "kill", "SIGTERM", "make", "/shared/signal", "sleep", "3600"),
                        policy="Always",
                    ),
                },
                runPolicy={"evaluatorGraceSeconds": 0},
            )
        ],
        both(
            succeeded(restarts=3),
            task_restarts(ps_0=1, evaluator_0=1, worker_0=1),
        ),
        levels=FULL,
        script=scripts.end_when_restarts_are_told(3),
    ),
    Case(
        "a killed member takes the whole gang with it, and all start again",
        [tfjob("gang", GANG)],
        both(succeeded(restarts=1), task_restarts(), attempts(chief_0=2, worker_0=2)),
    ),
    Case(
        "a member killed after another one exited 0 makes both run again",
        [
            tfjob(
                "late",
                {
                    "Chief": remembering(
                        "say", "trained", "first", "/shared/late-1", "exit", "0", "make", "/shared/late-2"
                    ),
                    "Worker": remembering(
                        *("until", "/shared/late-1", "sleep", "1.5"),
                        *("first", "/shared/late", "kill", "SIGKILL"),
                        *("until", "/shared/late-2"),
                        policy="ExitCode",
                    ),
                },
                terminationPolicy={"chief": {"replicaName": "Worker", "replicaIndex": 0}},
            )
        ],
        both(succeeded(restarts=1), attempts(chief_0=2, worker_0=2), said("chief-0", "trained")),
    ),
    Case(
        "with parameter servers a lost worker restarts alone",
        [
            tfjob(
                "alone",
                {
                    "Chief": remembering("until", "/shared/alone-2"),
                    "PS": replica("sleep", "3600"),
                    "Worker": remembering(
                        *("first", "/shared/alone", "kill", "SIGKILL"),
                        *("make", "/shared/alone-2", "sleep", "3600"),
                        policy="ExitCode",
                    ),
                },
            )
        ],
        both(succeeded(restarts=1), task_restarts(worker_0=1)),
    ),
    Case(
        "backoffLimit counts restarts and ends the job",
        [
            tfjob(
                "limit",
                {"Worker": replica("kill", "SIGUSR1", policy="ExitCode")},
                runPolicy={"backoffLimit": 1, "activeDeadlineSeconds": 1800},
            )
        ],
        both(failed("worker-0", 138, signal="SIGUSR1"), bounded),
    ),
    Case(
        "activeDeadlineSeconds ends the job on time",
        [tfjob("deadline", {"Worker": replica("sleep", "3600")}, runPolicy={"activeDeadlineSeconds": 1})],
        both(failed("", None, reason="DeadlineExceeded"), sooner_than(1800)),
    ),
    Case(
        "a replica over its memory limit is OOMKilled",
        [
            tfjob(
                "hungry", {"Worker": replica("eat", "400", "sleep", "3600", resources={"limits": {"memory": "100Mi"}})}
            )
        ],
        failed("worker-0", 137, signal="SIGKILL", reason="OOMKilled"),
    ),
    Case(
        "under ExitCode a replica over its memory limit is tried once more, and then the job fails",
        [
            tfjob(
                "starving",
                {
                    "Worker": replica(
                        *("eat", "400", "sleep", "3600"), policy="ExitCode", resources={"limits": {"memory": "100Mi"}}
                    )
                },
            )
        ],
        failed("worker-0", 137, signal="SIGKILL", reason="OOMKilled", restarts=1),
        levels=FULL,
    ),
    Case(
        "volumes and variables come as the manifest says",
        files_job(),
        both(succeeded(), greeted),
        levels=FULL,
    ),
    Case(
        "paths of volumes are rewritten in commands where nothing can be mounted",
        [tfjob("paths", {"Worker": remembering("once", "/shared/first", "say", "made", "exit", "0")})],
        both(succeeded(), said("worker-0", "made")),
    ),
    Case(
        "an init container goes first, and the main container's end is the replica's",
        several_containers(),
        both(
            succeeded(),
            said("worker-0/prepare", "prepared"),
            said("worker-0/beside", "beside"),
            sooner_than(1800),
        ),
    ),
    Case(
        "a v1alpha1 job runs with its own port, names and TF_CONFIG",
        old_job(),
        both(succeeded(), said("master-0", "done")),
    ),
    Case(
        "a batch/v1 Job runs all of its completions",
        batch_job(),
        both(succeeded(), said("worker-2", "no TF_CONFIG")),
    ),
    Case(
        "suspend ends all replicas, and resume goes on",
        [
            tfjob(
                "pause",
                {
                    "Chief": remembering("say", "here", "first", "/shared/paused", "sleep", "3600", "say", "back"),
                    "Worker": replica("sleep", "3600"),
                },
            )
        ],
        both(succeeded(), said("chief-0", "back")),
        levels=FULL,
        script=scripts.suspend_and_resume,
    ),
    Case(
        "a job that is suspended from the start begins when it is resumed",
        [tfjob("later", {"Worker": replica("say", "begun")}, runPolicy={"suspend": True})],
        both(succeeded(), said("worker-0", "begun")),
        levels=FULL,
        script=scripts.begin_when_resumed,
    ),
    Case(
        "a gang that is scaled starts again with a TF_CONFIG for its new size",
        [
            tfjob(
                "grow",
                {
                    "Chief": remembering("serve", "meet", "first", "/shared/small", "sleep", "3600"),
                    "Worker": replica("serve", "meet", "sleep", "3600"),
                },
            )
        ],
        both(succeeded(), said("chief-0", "met 2")),
        levels=FULL,
        script=scripts.grow,
    ),
    Case(
        "beside parameter servers workers come and go and nobody else is touched",
        [
            tfjob(
                "flock",
                {
                    "Chief": remembering("until", "/shared/enough"),
                    "PS": replica("sleep", "3600"),
                    "Worker": replica("sleep", "3600"),
                },
            )
        ],
        succeeded(),
        levels=FULL,
        script=scripts.scale_beside_servers,
    ),
    *(
        Case(
            f"cleanPodPolicy {policy}: the parameter server {'stays' if policy == 'None' else 'goes'}",
            [
                tfjob(
                    f"clean-{policy.lower()}",
                    {"Chief": replica("sleep", "0.2"), "PS": replica("sleep", "3600")},
                    runPolicy={"cleanPodPolicy": policy},
                )
            ],
            gone if policy == "None" else succeeded(),
            levels=FULL,
            script=scripts.see_the_server_stay if policy == "None" else scripts.see_the_server_go,
        )
        for policy in ("All", "Running", "None")
    ),
    Case(
        "ttlSecondsAfterFinished removes the job on time",
        [tfjob("brief", {"Worker": replica("sleep", "0.2")}, runPolicy={"ttlSecondsAfterFinished": 3})],
        gone,
        levels=FULL,
        script=scripts.see_it_go,
    ),
    Case(
        "a policy that does not exist is refused, with its path",
        [tfjob("policy", {"Worker": replica("sleep", "1", policy="Sometimes")})],
        refused("spec.tfReplicaSpecs.Worker.restartPolicy", "Sometimes"),
        levels=FULL,
    ),
    Case(
        "a misspelt field is refused, with the nearest name",
        [tfjob("misspelt", {"Worker": replica("sleep", "1")}, runPolicy={"backoffLimits": 1})],
        refused("spec.runPolicy.backoffLimits", "backoffLimit"),
        levels=FULL,
    ),
    Case(
        "a job of two chiefs is refused",
        [tfjob("chiefs", {"Chief": replica("sleep", "1", count=2)})],
        refused("spec.tfReplicaSpecs.Chief"),
        levels=FULL,
    ),
]


def asked_of(level: str) -> list[Case]:
    """The cases for a level of the local cluster."""
    return [case for case in CASES if level in case.levels]
