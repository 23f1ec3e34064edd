"""The sources of a job's lines after its pods are gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.golden import Wording
from support.plan.builders import job
from tfjob.api.types import Restart, TFJobStatus, Verdict
from tfjob.jobs.backend import LogQuery
from tfjob.kube.access.config import Access
from tfjob.kube.client.client import Client
from tfjob.kube.jobs.logs import JobLogs
from tfjob.records.job_records import JobRecords


@pytest.mark.parametrize(("previous", "lines"), [(False, ["it ends"]), (True, ["it begins again"])])
def test_the_status_keeps_the_last_lines_of_failures(
    previous: bool, lines: list[str], tmp_path: Path, wording: Wording
) -> None:
    status = TFJobStatus(
        failure=Verdict(replica="worker-0", attempt=2, last_lines=["it ends"]),
        last_restart=Restart(cause=Verdict(replica="worker-0", attempt=1, last_lines=["it begins again"])),
    )
    client = Client(Access(server="http://127.0.0.1:1"))
    logs = JobLogs(client, replace(job(worker=1), status=status), JobRecords(tmp_path))

    async def read() -> list[tuple[str, bool]]:
        batches = [batch async for batch in logs.read(LogQuery(previous=previous), gone=True)]
        return [(line.text, line.notice) for batch in batches for line in batch]

    (head, is_notice), *rest = asyncio.run(read())
    assert is_notice
    wording(head)
    assert rest == [(line, False) for line in lines]
