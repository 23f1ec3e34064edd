"""An API server that is busy, loses answers, lets others write meanwhile, or goes away: jobs get to their end."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from devcluster.client import Client
from support.faulty_door import Door, faulty_door, lose_answer
from support.operating import OperatorProcess, operating
from support.pod_history import pod_history
from support.room import Room, job
from support.running import wait_until
from tfjob.api.types import TFJOBS

pytestmark = pytest.mark.faults

TASKS = ("chief-0", "ps-0", "worker-0")
BUSY_SECONDS = 1


def test_a_server_that_is_busy_is_given_the_time_it_asks_for(
    control_plane: Client, quiet_room: Room, tmp_path: Path
) -> None:
    async def busy(door: Door, request: web.Request, body: bytes) -> web.StreamResponse:
        status = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "come back later"}
        return web.json_response(status, status=429, headers={"Retry-After": str(BUSY_SECONDS)})

    with (
        faulty_door(control_plane.kubeconfig, tmp_path, busy) as door,
        operating(door.kubeconfig, f"--namespace={quiet_room.namespace}") as operator,
    ):
        whole_life(quiet_room, "busy")
        assert errors(operator) == 0
        assert operator.total("rest_client_requests_total", code="429", method="POST") > 0
        writes = {what for _, what in door.seen}
        again = [times for what in writes if len(times := door.times(what)) > 1]
        assert len(again) > len(TASKS)
        assert all(second - first >= BUSY_SECONDS for times in again for first, second in itertools.pairwise(times[:2]))


def whole_life(team: Room, name: str) -> None:
    """A job that loses a worker and succeeds."""
    team.create(job(name, chief=1, ps=1, worker=1, policy="ExitCode"))
    team.all_run(name, *TASKS)
    before = team.uids(name)
    team.ends(f"{name}-worker-0", 137)
    wait_until(lambda: team.uids(name).get("worker-0", before["worker-0"]) != before["worker-0"], 60)
    team.all_run(name, *TASKS)
    team.ends(f"{name}-chief-0")
    status = team.until(name, "Succeeded")
    assert status["restarts"] == 1
    team.until_pods(name, "chief-0")


def errors(operator: OperatorProcess) -> float:
    return operator.total("controller_runtime_reconcile_errors_total", controller="tfjob-controller")


def test_an_answer_that_gets_lost_doubles_nothing(control_plane: Client, quiet_room: Room, tmp_path: Path) -> None:
    """Every write is carried out, and the first time nobody is told."""
    with (
        pod_history(control_plane, quiet_room.namespace) as history,
        faulty_door(control_plane.kubeconfig, tmp_path, lose_answer) as door,
        operating(door.kubeconfig, f"--namespace={quiet_room.namespace}") as operator,
    ):
        whole_life(quiet_room, "lost")
        assert history.counts("lost") == {"chief-0": 1, "ps-0": 1, "worker-0": 2}
        assert errors(operator) > 0


def test_a_job_that_somebody_changes_meanwhile_is_read_again(
    control_plane: Client, quiet_room: Room, tmp_path: Path
) -> None:
    """The first status that the operator writes meets a job that was changed after it was read."""

    async def change(door: Door, request: web.Request, body: bytes) -> web.StreamResponse | None:
        if request.path.endswith("/status"):
            patch = msgspec.json.encode({"metadata": {"labels": {"changed": "meanwhile"}}})
            url = f"{door.server}{request.path.removesuffix('/status')}"
            headers = {"Content-Type": "application/merge-patch+json"}
            async with door.session.patch(url, data=patch, headers=headers) as answer:
                assert answer.status == 200
        return None

    with (
        faulty_door(control_plane.kubeconfig, tmp_path, change) as door,
        operating(door.kubeconfig, f"--namespace={quiet_room.namespace}") as operator,
    ):
        whole_life(quiet_room, "changed")
        assert quiet_room.get(TFJOBS, "changed")["metadata"]["labels"] == {"changed": "meanwhile"}
        assert operator.total("rest_client_requests_total", code="409", method="PUT") >= 1
        assert not [line for line in operator.log if line["level"] == "error"], "a conflict is nothing to cry about"


def test_what_happened_while_the_server_was_away_is_made_up_for(
    control_plane: Client, quiet_room: Room, tmp_path: Path
) -> None:
    with (
        faulty_door(control_plane.kubeconfig, tmp_path) as door,
        operating(door.kubeconfig, f"--namespace={quiet_room.namespace}") as operator,
    ):
        quiet_room.create(job("away", worker=1))
        quiet_room.all_run("away", "worker-0")
        door.close()
        wait_until(lambda: not answered(operator), 60)
        quiet_room.ends("away-worker-0")
        quiet_room.create(job("unseen", worker=1))
        assert operator.ask("/healthz") == (200, "ok")
        door.reopen()
        quiet_room.until("away", "Succeeded")
        quiet_room.until_pods("unseen", "worker-0")


def answered(operator: OperatorProcess) -> bool:
    """Whether all of its requests were answered so far."""
    return not operator.total("rest_client_requests_total", code="<error>")
