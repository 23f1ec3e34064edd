"""TensorBoard in the foreground: several jobs in one, and its port."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from support.board.event_files import write_scalar
from support.golden import Wording
from support.running import wait_until
from tfjob.local.jobs.tensorboard import HOST, USUAL_PORT, Server, TensorBoardView, free_port, together
from tfjob.local.run.tensorboard import has_no_events
from tfjob.local.state.errors import Refusal


def test_a_port_that_is_asked_for_must_be_free_and_the_usual_one_need_not(wording: Wording) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refusal, match=str(port)) as caught:
            free_port(port)
    wording(str(caught.value).replace(str(port), "PORT"))
    assert free_port(port) == port
    assert free_port(0) == 0
    assert free_port(None) in (USUAL_PORT, 0)


@pytest.mark.faults
def test_several_jobs_are_shown_by_one_each_under_its_name_and_nothing_beside_them(tmp_path: Path) -> None:
    """Also if two share a folder, one has a comma in its path, and one has nothing yet."""
    shared, odd, later = tmp_path / "shared", tmp_path / "a,b:c", tmp_path / "later"
    write_scalar(shared / "train", "loss", [1.0])
    write_scalar(odd, "loss", [1.0])
    write_scalar(tmp_path / "neighbour", "loss", [1.0])
    folders = {"mnist.1": shared, "mnist.2": shared, "wide": odd, "new": later}
    views = {
        name: TensorBoardView(Path(sys.executable), [str(folder)], dict(os.environ)) for name, folder in folders.items()
    }
    shown = together(views, tmp_path / "links")
    assert [name for name, folder in folders.items() if has_no_events(str(folder))] == ["new"]
    server = Server(shown, tmp_path / "log")
    try:
        wait_until(lambda: bool(server.url), 120, lambda: server.said)

        def runs() -> set[str]:
            try:
                with urlopen(f"{server.url}data/runs", timeout=60) as answer:
                    return set(json.load(answer))
            except (URLError, ConnectionError, TimeoutError):
                return set()

        wait_until(lambda: len(runs()) >= 3, 120, lambda: f"{runs()}")
        assert runs() == {"mnist.1/train", "mnist.2/train", "wide"}
        with pytest.raises(ConnectionRefusedError):  # it listens at one address, where no other machine comes
            socket.create_connection(("127.0.0.2", urlsplit(server.url).port or 0), 5)
    finally:
        server.stop()


def test_an_object_store_is_not_shown_beside_other_jobs(tmp_path: Path, wording: Wording) -> None:
    views = {
        "here": TensorBoardView(Path(sys.executable), [str(tmp_path)], {}),
        "far": TensorBoardView(Path(sys.executable), ["s3://bucket/runs"], {}),
    }
    with pytest.raises(Refusal, match="s3://bucket/runs") as caught:
        together(views, tmp_path / "links")
    wording(caught.value)
