"""Ctrl-C while `run --on k8s` creates a job: the last line says whether the job exists.

The API server answers when a test lets it: a real one is too fast to be interrupted.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from signal import SIGINT

import pytest
from aiohttp import web

from support.command_line import GOLDEN
from support.golden import check_golden
from support.installed import Installed
from support.kube.api_server import ApiServer, reply

SPEC = {"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "tensorflow", "image": "x"}]}}}}}
JOB = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "cut", "namespace": "team"}, "spec": SPEC}
NONE = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "none", "details": {"name": "cut"}}


@pytest.mark.parametrize(
    ("dry_run", "words", "keyword"),
    [
        (True, (), "cut "),
        (False, (), "tfjob stop cut --on k8s -n team"),
        (False, ("--detach",), "tfjob status cut --on k8s"),
    ],
    ids=["before it is sent", "before the answer", "detached"],
)
def test_an_interrupted_run_says_what_became_of_the_job(
    tool: Installed, tmp_path: Path, dry_run: bool, words: tuple[str, ...], keyword: str
) -> None:
    """The signal arrives while the API server processes the check of the job, or its creation."""

    async def interrupted() -> tuple[int | None, str]:
        reached = asyncio.Event()

        async def answer(request: web.Request) -> web.StreamResponse:
            if request.method != "POST":
                return await reply(NONE, 404)(request)
            if ("dryRun" in request.query) == dry_run:
                reached.set()
                # The check is never over; the creation is, some time after the signal.
                await asyncio.sleep(600 if dry_run else 3)
            made = await request.json()
            return web.json_response({**made, "metadata": {**made["metadata"], "uid": "1", "resourceVersion": "1"}})

        async with ApiServer(otherwise=answer) as server:
            process = await asyncio.create_subprocess_exec(
                *tool.command,
                *("run", "--on", "k8s", "-", *words),
                env={**tool.environment(tmp_path / "home"), "KUBECONFIG": str(server.kubeconfig(tmp_path))},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(JOB).encode())
                process.stdin.close()
                await asyncio.wait_for(reached.wait(), 120)
                process.send_signal(SIGINT)
                output, _ = await asyncio.wait_for(process.communicate(), 120)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            sent = [one.query for one in server.seen if one.method == "POST"]
        assert [one for one in sent if "dryRun" not in one] == [] if dry_run else len(sent) == 2
        return process.returncode, output.decode()

    code, output = asyncio.run(interrupted())
    assert code == 130, output
    assert keyword in output
    name = "not-sent" if dry_run else "detached" if words else "not-answered"
    check_golden(GOLDEN / f"run-cluster-interrupted-{name}.txt", output)
    assert "Traceback" not in output
