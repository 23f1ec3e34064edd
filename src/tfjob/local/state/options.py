"""The options of a run, stored in its folder for every process that drives it later."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tfjob.local.sandbox.pod_spec import Level, Limits


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line; `level` and `limits` are resolved before the run starts and never change.

    Relative paths and `tfjob.toml` belong to the folder `project`; the name and the storage of a job to the folder
    `source`, which older releases did not record.
    """

    project: str
    source: str = ""
    level: Level
    limits: Limits
    python: str = ""
    cpu: bool = False
    warm: bool | None = None
    volumes: dict[str, str] = {}
    environ: dict[str, str] = {}
    pass_env: list[str] = []
    env_files: list[str] = []

    def save(self, folder: Path) -> None:
        (folder / "options.json").write_bytes(msgspec.json.encode(self))

    @classmethod
    def load(cls, folder: Path) -> Options:
        return msgspec.json.decode((folder / "options.json").read_bytes(), type=cls)
