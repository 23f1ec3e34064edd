"""All waits of seconds or minutes, in one object that is passed in from the top, so that tests can shorten them.

For a process that a test starts, the environment variable `TFJOB_TEST_DURATIONS` sets some of them as JSON, in seconds:
`{"settle_gang": 1}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

VARIABLE = "TFJOB_TEST_DURATIONS"


def _seconds(*lengths: float) -> tuple[timedelta, ...]:
    return tuple(timedelta(seconds=length) for length in lengths)


class Durations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Durations that a test may want to shorten; pauses below half a second are constants where they are used.

    Durations that a user can set (grace periods, the idle time of a fork server, back-offs of restarts in place on this
    machine) are in the manifest or in `tfjob.toml`.
    """

    # --- the decision about a job ---

    settle_gang: timedelta = timedelta(seconds=15)
    """How long the plan waits for the cause of a failure in a gang that looks permanent."""
    settle_tasks: timedelta = timedelta(seconds=5)
    """How long it waits if replicas restart separately."""
    settle_nodes: timedelta = timedelta(seconds=15)
    """How long it waits if the cause may be on another node: a kubelet that restarts reports ends late."""
    aftermath: timedelta = timedelta(minutes=1)
    """How long after the restart of a lost task its peers may still fail because of the loss."""
    oom_window: timedelta = timedelta(minutes=30)
    """How soon after a start a second OOM kill in a row fails the job."""
    restart_waits: tuple[timedelta, ...] = _seconds(0, 10, 20, 40, 80, 160, 300)
    """How long the first, second, ... restart in a row waits; the last value is for all further ones."""
    streak_reset: timedelta = timedelta(minutes=10)
    """How long a task must run without a restart until the next one counts as the first in a row."""
    quiet_restarts: timedelta = timedelta(seconds=1)
    """The pause between reports of restarts in place, per replica: a thousand reports would fill the screen."""
    repeat_deletion: tuple[timedelta, ...] = _seconds(30, 60, 120, 240, 300)
    """How long after a pod should be gone its deletion is repeated, then after each repetition."""

    # --- the loop ---

    rejection_retry: timedelta = timedelta(seconds=10)
    """The first delay before the creation of a rejected child is retried."""
    longest_rejection_retry: timedelta = timedelta(seconds=60)
    """The longest delay, for a child that has been rejected for a long time."""
    longest_retry: timedelta = timedelta(seconds=60)
    """The longest delay after a pass that failed; there is no notice when a full disk or a lost network recovers."""

    # --- this machine ---

    start_retry: timedelta = timedelta(seconds=2)
    """The delay before the start of a pod that failed to start is retried."""
    end_grace: timedelta = timedelta(seconds=5)
    """The grace period of pods that still run when their job is finished, if the manifest sets none."""
    fork_server_start: timedelta = timedelta(seconds=60)
    """How long a fork server may take to start and to import TensorFlow."""
    fork_server_answer: timedelta = timedelta(seconds=5)
    """How long a fork server may take to check the files that it has imported, or to fork."""
    fork_ready: timedelta = timedelta(seconds=10)
    """How long a fork may take to become the supervisor of its pod."""
    fork_life: timedelta = timedelta(seconds=10)
    """How long a forked program may take to reach its first line."""
    helper_program: timedelta = timedelta(seconds=10)
    """How long git, nvidia-smi or an interpreter may take to answer."""
    driver_rest: timedelta = timedelta(seconds=1)
    """The interval between the checks of a driver while no file changes: the longest that a retry is late."""

    # --- the API server ---

    request: timedelta = timedelta(seconds=60)
    """How long a request may take; an API server also gives up after a minute."""
    dead_connection: timedelta = timedelta(seconds=30)
    """How long the peer may take to acknowledge a request, or the kernel's probe of an idle connection."""
    watch_idle: timedelta = timedelta(seconds=120)
    """How long a watch may be silent: longer than the minute between two bookmarks."""
    watch_short: timedelta = timedelta(seconds=1)
    """A watch that ends sooner than this without an event has failed, even if it ends without an error."""
    watch_pace: timedelta = timedelta(seconds=0.25)
    """The pause between the starts of two watches: a start costs an API server more than an event."""
    first_watch_delay: timedelta = timedelta(seconds=0.8)
    longest_watch_delay: timedelta = timedelta(seconds=30)
    """The first and the longest pause before a failed watch is restarted; the values are those of client-go."""
    own_write: timedelta = timedelta(seconds=60)
    """How long a cache may take to show what we wrote; after that, the object was deleted while no watch ran."""
    sweep: timedelta = timedelta(seconds=30)
    """The interval between checks for writes that no cache showed."""
    connect: timedelta = timedelta(seconds=10)
    """How long opening a connection may take, to an API server or to a proxy."""
    read_retry: timedelta = timedelta(seconds=0.2)
    """The longest delay before a failed read is retried for the first time; it doubles for each further retry."""
    longest_retry_after: timedelta = timedelta(seconds=30)
    """The longest pause that an API server may request; if it requests more, the caller gets the error."""
    error_body: timedelta = timedelta(seconds=10)
    """How long reading the rest of an error may take that a server sends instead of a stream."""
    watch_length: timedelta = timedelta(minutes=5)
    """The shortest duration of a watch; it is random, up to twice as long, so that not all watches end together."""
    stuck_watch: timedelta = timedelta(minutes=5)
    """How long a watch may make no progress before the operator reports that it is unhealthy."""
    credential_margin: timedelta = timedelta(seconds=10)
    """How long before their end credentials count as expired, so that they do not expire during a request."""
    credential_program: timedelta = timedelta(seconds=60)
    """How long a credential plugin without a terminal may run."""
    keep_alive: timedelta = timedelta(seconds=75)
    """How long an idle connection is reused; an API server closes it after 90 s."""

    # --- commands on a cluster ---

    completion: timedelta = timedelta(seconds=2)
    """How long the completion of a word in a shell may wait for a cluster."""
    look: timedelta = timedelta(seconds=1)
    """The interval between reads of a job and its logs, if no watch reports a change sooner."""
    last_words: timedelta = timedelta(seconds=5)
    """How long reading the rest of the logs may take after the end of a job."""
    unseen: timedelta = timedelta(seconds=10)
    """How long a job may exist before a command reports that no operator handles it."""
    unnoticed: timedelta = timedelta(seconds=60)
    """How long an operator may take to notice an edit."""
    usage: timedelta = timedelta(seconds=15)
    """The interval between reads of the CPU and memory usage: the default interval of a metrics server."""
    board_ready: timedelta = timedelta(seconds=120)
    """How long the pod of a TensorBoard may take to become ready: its image must be pulled."""
    board_events: timedelta = timedelta(seconds=3)
    """How long a ready TensorBoard may take to find its first event file."""
    crd_served: timedelta = timedelta(seconds=30)
    """How long an API server may take to serve a new CRD."""
    handover: timedelta = timedelta(seconds=120)
    """How long another operator may take to stop handling TFJobs."""
    unpulled: timedelta = timedelta(seconds=60)
    """How long pulling an image of the self-test may fail; the kubelet has tried three times by then."""
    board_answers: timedelta = timedelta(seconds=60)
    """How long the TensorBoard of the self-test may take to answer, at least."""
    trial_gone: timedelta = timedelta(seconds=60)
    """How long the objects of the self-test may take to be removed."""

    # --- the lease of the leader ---

    lease: timedelta = timedelta(seconds=15)
    """How long a standby respects a lease that is not renewed."""
    lease_renewal: timedelta = timedelta(seconds=10)
    """How long a leader that cannot renew its lease still leads."""
    lease_retry: timedelta = timedelta(seconds=1)
    """The interval between renewals, and between the checks of a standby, which takes a released lease soon."""
    lease_attempt: timedelta = timedelta(seconds=3)
    """How long one renewal may take, so that a dead connection does not cost the lease."""
    lease_release: timedelta = timedelta(seconds=1)
    """How long the release of the lease may take when the leader stops."""

    # --- the rest of the operator ---

    last_passes: timedelta = timedelta(seconds=0.8)
    """How long running passes may take after a request to stop."""
    last_events: timedelta = timedelta(seconds=0.5)
    """How long writing the last events may take."""
    trust_check: timedelta = timedelta(seconds=30)
    """The interval between checks that the API server still trusts the webhook's certificate."""
    trust_retry: timedelta = timedelta(seconds=5)
    """The delay before publishing a certificate is retried."""
    trust_spread: timedelta = timedelta(seconds=5)
    """How long it takes until every API server has a new certificate, and the webhook may use it."""
    config_check: timedelta = timedelta(seconds=1)
    """The interval between reads of a configuration file; the kubelet updates a mounted ConfigMap within a minute."""


USUAL = Durations()


def durations_from(environ: Mapping[str, str]) -> Durations:
    """Return the usual durations, except those that a test has set in the environment."""
    text = environ.get(VARIABLE)
    return msgspec.json.decode(text, type=Durations, strict=False) if text else USUAL
