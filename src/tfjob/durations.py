"""How long the product waits for what takes seconds or minutes, in one object that is passed in from the top.

A test runs the same code with other lengths. For a process that a test starts, the environment variable
`TFJOB_TEST_DURATIONS` holds some of them as JSON, in seconds: `{"settle_gang": 1}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

VARIABLE = "TFJOB_TEST_DURATIONS"


def _seconds(*lengths: float) -> tuple[timedelta, ...]:
    return tuple(timedelta(seconds=length) for length in lengths)


class Durations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every length that a test may want to shorten; pauses below half a second are constants where they are used.

    What a user can set (grace periods, the idle time of a fork server, back-offs of restarts in place on this machine)
    is in the manifest or in `tfjob.toml` instead.
    """

    # --- the decision about a job ---

    settle_gang: timedelta = timedelta(seconds=15)
    """How long a failure in a gang that looks permanent is held until its cause may have shown."""
    settle_tasks: timedelta = timedelta(seconds=5)
    """How long such a failure is held where replicas restart one by one."""
    settle_nodes: timedelta = timedelta(seconds=15)
    """How long it is held if the cause may be on another node: a kubelet that restarts reports ends late."""
    aftermath: timedelta = timedelta(minutes=1)
    """How long after a lost task is back its peers may still fail of it: they notice when they next talk to it."""
    oom_window: timedelta = timedelta(minutes=30)
    """How soon after its start a second OOM kill in a row is final."""
    restart_waits: tuple[timedelta, ...] = _seconds(0, 10, 20, 40, 80, 160, 300)
    """How long the first, second, ... restart in a row waits; the last length is for all after it."""
    streak_reset: timedelta = timedelta(minutes=10)
    """How long a task must do without a restart for the next one to be the first in a row again."""
    quiet_restarts: timedelta = timedelta(seconds=1)
    """The pause between reports of restarts in place, per replica: a thousand reports would fill the screen."""
    repeat_deletion: tuple[timedelta, ...] = _seconds(30, 60, 120, 240, 300)
    """Until the deletion of a pod that should be gone is repeated: after it was due, then after each repetition."""

    # --- the loop ---

    rejection_retry: timedelta = timedelta(seconds=10)
    """Until a child that the cluster would not create is tried again, at first."""
    longest_rejection_retry: timedelta = timedelta(seconds=60)
    """The same when it has been refused for long."""

    longest_retry: timedelta = timedelta(seconds=60)
    """The longest delay after a pass that failed: a full disk or a lost network ends without notice."""

    # --- this machine ---

    start_retry: timedelta = timedelta(seconds=2)
    """Until a pod that could not be started is tried again."""
    end_grace: timedelta = timedelta(seconds=5)
    """The grace period of what a finished job leaves running, if the manifest sets none: nothing waits for it."""
    fork_server_start: timedelta = timedelta(seconds=60)
    """How long a fork server may take to start and to import TensorFlow."""
    fork_server_answer: timedelta = timedelta(seconds=5)
    """How long a fork server may take to look at the files that it has imported, or to fork."""
    fork_ready: timedelta = timedelta(seconds=10)
    """How long a fork may take to become the supervisor of its pod."""
    helper_program: timedelta = timedelta(seconds=10)
    """How long git, nvidia-smi or an interpreter may take to answer a question."""

    # --- the API server ---

    request: timedelta = timedelta(seconds=60)
    """How long a request may take; an API server gives up after a minute itself."""
    dead_connection: timedelta = timedelta(seconds=30)
    """How long the other end may leave unanswered what the kernel sends: a request, or a probe on a quiet line."""
    watch_idle: timedelta = timedelta(seconds=120)
    """How long a watch may be silent: longer than the minute between two bookmarks."""
    watch_short: timedelta = timedelta(seconds=1)
    """A watch that ends sooner than this without an event has failed, even if it ends in order."""
    watch_pace: timedelta = timedelta(seconds=0.25)
    """Between the beginnings of two watches: to begin one costs an API server more than an event."""
    first_watch_delay: timedelta = timedelta(seconds=0.8)
    longest_watch_delay: timedelta = timedelta(seconds=30)
    """The first and the longest pause before a watch that failed is begun again; the numbers are client-go's."""
    own_write: timedelta = timedelta(seconds=60)
    """How long a cache may take to show what we wrote; after that the object went while the watch was interrupted."""
    sweep: timedelta = timedelta(seconds=30)
    """Between two looks for writes that no cache showed."""
    connect: timedelta = timedelta(seconds=10)
    """How long opening a connection may take, to an API server or to a proxy."""
    longest_retry_after: timedelta = timedelta(seconds=30)
    """The longest pause that an API server may ask for; beyond it the caller gets the error."""
    error_body: timedelta = timedelta(seconds=10)
    """How long the rest of an error may take that comes in place of a stream."""
    watch_length: timedelta = timedelta(minutes=5)
    """How long an API server keeps a watch at least; at most twice as long, at random, so that not all end at once."""
    stuck_watch: timedelta = timedelta(minutes=5)
    """How long a watch may neither hear nor try anything before the operator reports itself as unhealthy."""
    credential_margin: timedelta = timedelta(seconds=10)
    """How long before their end credentials count as expired, so that they do not expire during a request."""
    credential_program: timedelta = timedelta(seconds=60)
    """How long a credential plugin may run that has no terminal."""

    keep_alive: timedelta = timedelta(seconds=75)
    """How long an idle connection is used again; an API server closes it after 90 s, which a request must not meet."""

    # --- commands on a cluster ---

    look: timedelta = timedelta(seconds=1)
    """Between two looks at a job and its logs, if no watch brings something sooner."""
    last_words: timedelta = timedelta(seconds=5)
    """How long the logs of containers that have ended may take to be read to their end, after the end of their job."""
    unseen: timedelta = timedelta(seconds=10)
    """How long a job may exist before a command says that no operator looks at it."""
    unnoticed: timedelta = timedelta(seconds=60)
    """How long an operator may take to notice an edit."""
    crd_served: timedelta = timedelta(seconds=30)
    """How long an API server may take to serve a CRD that an installation has applied."""
    handover: timedelta = timedelta(seconds=120)
    """How long another operator may take to leave TFJobs to ours."""
    unpulled: timedelta = timedelta(seconds=60)
    """How long an image of the self-test may fail to be pulled; the kubelet has tried three times by then."""
    board_answers: timedelta = timedelta(seconds=60)
    """How long the TensorBoard of the self-test may take to answer, at least."""
    trial_gone: timedelta = timedelta(seconds=60)
    """How long the objects of the self-test may take to be removed."""

    # --- the lease of the leader ---

    lease: timedelta = timedelta(seconds=15)
    """How long a lease that is not renewed is respected."""
    lease_renewal: timedelta = timedelta(seconds=10)
    """How long a leader that cannot renew its lease still leads."""
    lease_retry: timedelta = timedelta(seconds=1)
    """Between two renewals, and between two looks of a standby: a lease that is released is taken soon."""
    lease_attempt: timedelta = timedelta(seconds=3)
    """How long one renewal may take: a connection that went silent must not cost the lease."""

    # --- the rest of the operator ---

    trust_check: timedelta = timedelta(seconds=30)
    """Between two looks at whether the API server still trusts the webhook's certificate."""
    trust_retry: timedelta = timedelta(seconds=5)
    """Until a certificate that could not be published is published again."""
    trust_spread: timedelta = timedelta(seconds=5)
    """Until every API server knows a new certificate, and the webhook may use it."""
    config_check: timedelta = timedelta(seconds=1)
    """Between two looks at a file; the kubelet takes up to a minute to bring a new ConfigMap into one."""


USUAL = Durations()


def durations_from(environ: Mapping[str, str]) -> Durations:
    """Return the usual lengths, apart from those that a test has set in the environment."""
    text = environ.get(VARIABLE)
    return msgspec.json.decode(text, type=Durations, strict=False) if text else USUAL
