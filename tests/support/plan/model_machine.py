"""The life of one job as a state machine: what can happen to it, in any order, while a controller looks or fails to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support.plan.builders import job
from support.plan.model_cluster import Decide, ModelCluster
from support.plan.model_invariants import Judge, is_alive
from tfjob.api.dialect import TENSORFLOW
from tfjob.api.types import CHIEF, MASTER, ChiefReference, TerminationPolicy, TFJob
from tfjob.controller.actions import Action
from tfjob.controller.kind import Observation
from tfjob.plan.build.settings import Settings
from tfjob.plan.plan import JobPlan, plan

MASTER_0 = TerminationPolicy(chief=ChiefReference(replica_name="Master", replica_index=0))
SHAPES: list[dict[str, Any]] = [
    {"worker": 2},
    {"chief": 1, "worker": 2, "evaluator": 1},
    {"worker": 2, "ps": 1},
    {"chief": 1, "worker": 1, "ps": 1, "policy": "OnFailure"},
    {"worker": 3, "success_policy": "AllWorkers"},
    {"worker": 3, "ps": 1, "success_policy": "AllWorkers", "policy": "Never"},
    {"chief": 1, "worker": 1, "policy": {"chief": "ExitCode", "worker": "OnFailure"}},
    {"worker": 2, "ps": 1, "enable_dynamic_worker": True, "success_policy": "AllWorkers", "policy": "OnFailure"},
    {"chief": 1, "worker": 2, "evaluator": 1, "restart_scope": "Task"},
    {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1, "restart_scope": "Gang"},
    {"worker": 2, "ps": 1, "default_server": True, "policy": {"worker": "ExitCode"}},
]
OF_THE_FIRST_OPERATOR: list[dict[str, Any]] = [
    {"master": 1, "worker": 2, "ps": 1, "origin": TENSORFLOW, "default_server": True, "termination_policy": MASTER_0},
]
LIMITS = st.fixed_dictionaries(
    {
        "backoff_limit": st.sampled_from([None, None, 0, 1, 3]),
        "clean_pod_policy": st.sampled_from(["None", "Running", "All"]),
        "active_deadline_seconds": st.sampled_from([None, None, None, None, 1000]),
        "ttl_seconds_after_finished": st.sampled_from([None, None, None, 0, 60]),
    }
)
NODES = ("node-0", "node-1", "node-2")
REFUSALS = ("QuotaExceeded", "Denied")
WAITS = ("Unschedulable", "Unschedulable", "ImagePullBackOff", "CreateContainerConfigError")
JUMPS = (1, 5, 20, 400, 3600, 3 * 86400, -2, -600)
Event = Callable[[st.DataObject], None]


class Machine(RuleBasedStateMachine):
    """The life of one job: something happens, and the controller looks, or fails to."""

    decide: Decide = staticmethod(plan)
    only: str | None = None
    shapes: Sequence[dict[str, Any]] = [*SHAPES, *OF_THE_FIRST_OPERATOR]
    happened: ClassVar[Counter[str]] = Counter()
    """What all sequences together went through, by the name of the event."""

    @initialize(data=st.data(), limits=LIMITS)
    def submit(self, data: st.DataObject, limits: dict[str, Any]) -> None:
        shape = data.draw(st.sampled_from(self.shapes))
        self.cluster = ModelCluster(job(**shape, run=limits), type(self).decide, Judge(self.only))
        self.happened["submit"] += 1
        self.arrive()

    def arrive(self) -> None:
        self.cluster.come_to_rest()

    @rule(data=st.data())
    def something_happens(self, data: st.DataObject) -> None:
        """One rule for all, so that hypothesis leaves none of them out of an example."""
        looks: list[Event] = [self.look] * 6 + [self.nobody_looks] * 2 + self.looks_in_vain()
        for possible in (self.possible(), looks):
            event = data.draw(st.sampled_from(possible))
            event(data)
            self.happened[event.__name__] += 1

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        cluster = self.cluster
        if cluster.job.metadata.deletion_timestamp:
            cluster.make_again()
        cluster.run_to_the_end()
        status = cluster.job.status
        excused = cluster.failures or status.reason == "DeadlineExceeded"
        cluster.judge.must("ends", status.state == "Succeeded" or excused, f"{status.state}, and nothing failed")

    def possible(self) -> list[Event]:
        """What can happen now; what is listed twice happens more often."""
        here = self.cluster
        pending, alive, crashed, leaving = self.pending(), self.alive(), self.crashed(), self.leaving()
        deleted = here.job.metadata.deletion_timestamp is not None
        return [
            *[self.all_start] * 8 * bool(pending),
            *[self.one_must_wait, self.one_is_turned_away] * 2 * bool(pending),
            *[self.one_exits] * 6 * bool(alive),
            *[self.one_is_killed] * 3 * bool(alive),
            *[self.one_is_oom_killed] * 2 * bool(alive),
            *[self.one_is_done, self.one_is_evicted, self.one_is_preempted] * 2 * bool(alive),
            *[self.one_is_deleted, self.one_vanishes] * bool(self.reachable()),
            *[self.one_restarts_in_place] * 8 * bool(crashed),
            *[self.one_is_gone, *[self.all_are_gone] * 6] * bool(leaving),
            *[self.a_deletion_is_cut_short] * 2 * bool(self.ended_and_leaving()),
            *[self.time_passes, self.scaled, self.refusals_begin_or_end, self.node_is_lost_or_back],
            *([self.made_again] * 8 if deleted else [self.deleted]),
            *([self.resumed] * 4 if here.job.spec.run_policy.suspend else [self.suspended]),
        ]

    # --- the controller ---

    def look(self, data: st.DataObject) -> None:
        self.cluster.come_to_rest()

    def nobody_looks(self, data: st.DataObject) -> None:
        pass

    def looks_in_vain(self) -> list[Event]:
        return [
            *[self.the_write_fails, self.it_sees_old_pods, self.it_starts_again, self.it_dies_after_its_write],
            *[self.it_acts_partly, self.it_acts_twice],
        ]

    def the_write_fails(self, data: st.DataObject) -> None:
        self.cluster.reconcile(status_fails=True)

    def it_sees_old_pods(self, data: st.DataObject) -> None:
        self.cluster.reconcile(lagging=True)

    def it_starts_again(self, data: st.DataObject) -> None:
        self.cluster.forget()
        self.cluster.come_to_rest()

    def it_dies_after_its_write(self, data: st.DataObject) -> None:
        self.cluster.reconcile(lambda actions: ())
        self.cluster.forget()

    def it_acts_partly(self, data: st.DataObject) -> None:
        """Actions of one kind are under way together: any of them may be the ones that were carried out."""

        def some(actions: Sequence[Action]) -> Iterator[Action]:
            stages = [list(stage) for _, stage in groupby(actions, key=type)]
            last = data.draw(st.integers(0, len(stages)))
            for number, stage in enumerate(stages[: last + 1]):
                yield from (action for action in stage if number < last or data.draw(st.booleans()))

        self.cluster.reconcile(some)
        self.cluster.forget()

    def it_acts_twice(self, data: st.DataObject) -> None:
        """An answer is lost, and the request is sent again: at once, or after all the others."""
        one_by_one = data.draw(st.booleans())
        self.cluster.reconcile(
            lambda actions: [action for action in actions for _ in range(2)] if one_by_one else [*actions, *actions]
        )

    # --- the kubelets, the scheduler and the nodes ---

    def all_start(self, data: st.DataObject) -> None:
        for name in self.pending():
            self.cluster.start(name, data.draw(st.sampled_from(self.good_nodes())))

    def one_must_wait(self, data: st.DataObject) -> None:
        self.cluster.wait_for(data.draw(st.sampled_from(self.pending())), data.draw(st.sampled_from(WAITS)))

    def one_is_turned_away(self, data: st.DataObject) -> None:
        self.cluster.evict(data.draw(st.sampled_from(self.pending())))

    def one_exits(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.alive()))
        self.cluster.exit(name, data.draw(st.one_of(st.sampled_from([0, 1]), st.integers(0, 255))))

    def one_is_killed(self, data: st.DataObject) -> None:
        self.cluster.exit(data.draw(st.sampled_from(self.alive())), 137)

    def one_is_oom_killed(self, data: st.DataObject) -> None:
        self.cluster.exit(data.draw(st.sampled_from(self.alive())), 137, "OOMKilled")

    def one_is_done(self, data: st.DataObject) -> None:
        """A task that does not decide is done, that is seen, and somebody clears its pod away."""
        name = self.alive()[-1]
        self.cluster.exit(name, 0)
        self.cluster.reconcile()
        if name in self.cluster.pods and data.draw(st.booleans()):
            self.cluster.removed(name)

    def one_restarts_in_place(self, data: st.DataObject) -> None:
        self.cluster.restart_in_place(data.draw(st.sampled_from(self.crashed())))

    def one_is_evicted(self, data: st.DataObject) -> None:
        self.cluster.evict(data.draw(st.sampled_from(self.alive())))

    def one_is_preempted(self, data: st.DataObject) -> None:
        self.cluster.preempt(data.draw(st.sampled_from(self.alive())))

    def one_is_deleted(self, data: st.DataObject) -> None:
        self.cluster.someone_deletes(data.draw(st.sampled_from(self.reachable())))

    def one_vanishes(self, data: st.DataObject) -> None:
        """Nobody has seen it go."""
        self.cluster.removed(data.draw(st.sampled_from(self.reachable())))

    def one_is_gone(self, data: st.DataObject) -> None:
        self.cluster.removed(data.draw(st.sampled_from(self.leaving())))

    def a_deletion_is_cut_short(self, data: st.DataObject) -> None:
        self.cluster.cut_short(data.draw(st.sampled_from(self.ended_and_leaving())))

    def all_are_gone(self, data: st.DataObject) -> None:
        for name in self.leaving():
            self.cluster.removed(name)

    def node_is_lost_or_back(self, data: st.DataObject) -> None:
        """Nothing is heard of its pods, and none of them can be removed."""
        if self.cluster.lost_nodes:
            self.cluster.lost_nodes.clear()
        else:
            self.cluster.lost_nodes.add(data.draw(st.sampled_from(NODES)))

    def refusals_begin_or_end(self, data: st.DataObject) -> None:
        """A quota is used up, or a policy denies the pods."""
        self.cluster.refusing = "" if self.cluster.refusing else data.draw(st.sampled_from(REFUSALS))
        self.cluster.failures += self.cluster.refusing == "Denied"

    # --- the user and the clock ---

    def suspended(self, data: st.DataObject) -> None:
        self.cluster.suspend(True)

    def resumed(self, data: st.DataObject) -> None:
        self.cluster.suspend(False)

    def scaled(self, data: st.DataObject) -> None:
        types = sorted(self.cluster.job.spec.tf_replica_specs.keys() - {CHIEF, MASTER})
        self.cluster.scale(data.draw(st.sampled_from(types)), data.draw(st.integers(1, 3)))

    def deleted(self, data: st.DataObject) -> None:
        self.cluster.delete_job()

    def made_again(self, data: st.DataObject) -> None:
        self.cluster.make_again()

    def time_passes(self, data: st.DataObject) -> None:
        self.cluster.wait(data.draw(st.sampled_from(JUMPS)))

    # --- who is in which state, as far as anybody hears of it ---

    def pending(self) -> list[str]:
        return self._pods(lambda pod: pod.status.phase == "Pending" and not pod.metadata.deletion_timestamp)

    def alive(self) -> list[str]:
        return self._pods(is_alive)

    def crashed(self) -> list[str]:
        return self._pods(
            lambda pod: pod.status.phase == "Running" and not is_alive(pod) and not pod.metadata.deletion_timestamp
        )

    def leaving(self) -> list[str]:
        return self._pods(lambda pod: pod.metadata.deletion_timestamp is not None)

    def ended_and_leaving(self) -> list[str]:
        return self._pods(lambda pod: pod.metadata.deletion_timestamp is not None and not is_alive(pod))

    def reachable(self) -> list[str]:
        return self._pods(lambda pod: True)

    def good_nodes(self) -> list[str]:
        return [node for node in NODES if node not in self.cluster.lost_nodes]

    def _pods(self, holds: Callable[[Any], Any]) -> list[str]:
        heard = (pod for pod in self.cluster.pods.values() if pod.spec.get("nodeName") not in self.cluster.lost_nodes)
        return sorted(pod.metadata.name for pod in heard if holds(pod))


class TakenOver(Machine):
    """A job that training-operator v1.9 has begun, and so none of the first operator."""

    shapes = SHAPES

    def arrive(self) -> None:
        self.cluster.come_to_rest()
        for name in self.pending():
            self.cluster.start(name)
        self.cluster.come_to_rest()
        self.cluster.left_by_v1_9()
        before = dict(self.cluster.pods)
        self.cluster.come_to_rest()
        assert self.cluster.pods == before, "taking a job over touches no pod"


def under_volcano(owner: TFJob, seen: Observation, now: datetime) -> JobPlan:
    return plan(owner, seen, now, Settings(gang_scheduler="volcano"))


class Ganged(Machine):
    """A job whose pods a gang scheduler starts together."""

    decide = staticmethod(under_volcano)

    def arrive(self) -> None:
        self.cluster.gang_scheduled = True
        super().arrive()

    def possible(self) -> list[Event]:
        waits = self.cluster.group is not None and not self.cluster.group.status.phase
        return [*[self.admitted] * 16 * waits, *super().possible()]

    def admitted(self, data: st.DataObject) -> None:
        self.cluster.admit()
