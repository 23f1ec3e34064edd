"""Incidents that come to the same wherever a training runs; both tables have them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.long_form import whole
from support.training.fire import COLLECTIVE, FROZEN, SERVERS, STEPS, TOO_HUNGRY, Fire

Start = Callable[..., Fire]
MEMORY = "1Gi"
DEADLINE = 90
"""Seconds that a job may run: a start and the steps before an incident take less on a machine that does much else."""


class Anywhere:
    """Tests for a module whose fixture `start` begins a training."""

    def test_peers_that_give_up_on_a_stopped_worker_by_a_signals_code_start_again_with_it(self, start: Start) -> None:
        """A chief that exits with 128 or more asks for another try: the worker is killed and everybody resumes."""
        fire = start(COLLECTIVE, "--when-a-peer-is-lost", "138")
        fire.strike(FROZEN, "worker-0")
        status = fire.finish()
        assert status["restarts"] == 1
        assert status["lastRestart"]["cause"]["exitCode"] == 138

    def test_peers_that_give_up_on_a_stopped_worker_by_exit_1_fail_the_job(self, start: Start) -> None:
        """The worker shows no sign of an end, so the chief's word counts: what it said is in the verdict."""
        fire = start(COLLECTIVE)
        fire.strike(FROZEN, "worker-0")
        failure = fire.fail()
        assert (failure["jobReason"], failure["replica"], failure["exitCode"]) == ("ReplicaFailed", "chief-0", 1)
        assert "a peer is gone" in failure["lastLines"][-1]

    def test_a_stopped_worker_of_parameter_servers_is_waited_for_until_the_deadline(self, start: Start) -> None:
        """TensorFlow's coordinator waits for ever for the step that it has handed out; activeDeadlineSeconds ends it.

        Nobody is to blame, so the verdict names no replica, and no step was taken a second time.
        """
        fire = start(SERVERS, run_policy={"activeDeadlineSeconds": DEADLINE})
        fire.strike(FROZEN, "worker-1")
        assert fire.exceed_deadline(DEADLINE).get("restarts", 0) == 0
        assert len(fire.steps()) == len(set(fire.steps())) < STEPS

    @pytest.mark.root
    @pytest.mark.parametrize(("shape", "task"), [whole(COLLECTIVE, "worker-0"), (SERVERS, "ps-0")])
    def test_a_task_that_takes_too_much_memory_each_time_fails_the_job(
        self, start: Start, shape: str, task: str
    ) -> None:
        """The verdict has the limit to raise."""
        fire = start(shape, memory=MEMORY)
        fire.strike(TOO_HUNGRY, task)
        failure = fire.fail()
        assert (failure["jobReason"], failure["replica"], failure["exitCode"]) == ("OOMKilled", task, 137)
        assert "limit 1Gi" in failure["message"]

    @pytest.mark.parametrize(("shape", "task"), [(COLLECTIVE, "worker-0"), whole(SERVERS, "ps-0")])
    def test_a_port_that_a_replica_itself_has_in_use_fails_the_job(self, start: Start, shape: str, task: str) -> None:
        """Its peers wait for it without a word; the verdict is TensorFlow's, of the replica that could not serve."""
        failure = start(shape, "--occupy", task).fail()
        assert (failure["replica"], failure["exitCode"]) == (task, 1)
        assert any("Could not start gRPC server" in line for line in failure["lastLines"])
