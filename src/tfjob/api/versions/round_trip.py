"""Stored jobs in any version: what the conversion webhook answers with, and how a TfJob of tensorflow.org is read.

Nothing is judged and nothing is lost: whatever the API server has stored must come out again, also what is wrong or
odd, and come back as it was. What a version cannot say travels with the object in one annotation, as differences
between the object and what can be read from the other version; an edit made there wins over them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from tfjob.api.dialect import TENSORFLOW
from tfjob.api.types import API_VERSION, UNSAID
from tfjob.api.versions import served_v1alpha1, served_v1beta, v1beta
from tfjob.api.versions.differences import Difference, differences, put_back
from tfjob.api.versions.spelling import Spelling, spelt_back

Object = dict[str, Any]

ALPHA1 = "kubeflow.org/v1alpha1"
OLDER = (*v1beta.VERSIONS, ALPHA1)
"""What can be served beside v1, which is stored."""
LONGEST_SHOWN = 60


class StrangeVersion(ValueError):
    """An object says, or is to get, a version that no job has."""


class Note(msgspec.Struct, omit_defaults=True):
    """What is put back into an object on its way to one version: differences, and names as they were spelt."""

    differ: list[Difference] = []
    spelt: list[Spelling] = []


Notes = dict[str, Note]
_DECODER = msgspec.json.Decoder(Notes)


@dataclass(frozen=True)
class _Way:
    """From one version to another: how either is read and written, and what each says where the other says something.

    An object is compared in its plain form, which spells everything in one way.
    """

    source: str
    target: str
    plain: Callable[[Object], tuple[Object, list[Spelling]]]
    written: Callable[[Object, list[Spelling]], Object]
    target_plain: Callable[[Object], tuple[Object, list[Spelling]]]
    target_written: Callable[[Object, list[Spelling]], Object]
    there: Callable[[Object], Object]
    back: Callable[[Object], Object]


def converted(job: Object, api_version: str) -> Object:
    """A stored object in another version; the given one stays as it is. Raises StrangeVersion."""
    given = job.get("apiVersion")
    for version in (given, api_version):
        if version not in (API_VERSION, *OLDER, TENSORFLOW):  # of any type: nobody has judged it
            raise StrangeVersion(f"apiVersion {str(version)[:LONGEST_SHOWN]!r} is no version of a job")
    assert isinstance(given, str)
    if given == api_version:
        return job
    if API_VERSION not in (given, api_version):
        return converted(converted(job, API_VERSION), api_version)
    return _crossed(job, _up(given) if api_version == API_VERSION else _down(api_version))


@cache
def _up(older: str) -> _Way:
    module = served_v1alpha1 if older in (ALPHA1, TENSORFLOW) else served_v1beta
    return _Way(
        source=older,
        target=API_VERSION,
        plain=module.plain,
        written=module.written,
        target_plain=module.plain_v1,
        target_written=spelt_back,
        there=module.to_v1,
        back=lambda made: module.from_v1(made, older),
    )


@cache
def _down(older: str) -> _Way:
    up = _up(older)
    return _Way(
        source=API_VERSION,
        target=older,
        plain=up.target_plain,
        written=up.target_written,
        target_plain=up.plain,
        target_written=up.written,
        there=up.back,
        back=up.there,
    )


def _crossed(job: Object, way: _Way) -> Object:
    bare, notes = _without_notes(job)
    note = notes.pop(way.target, None) or Note()
    plain, spelt = way.plain(bare)
    made = way.target_written(put_back(way.there(plain), note.differ), note.spelt)
    # What is to be put back on the way home is measured from what will be read there.
    home = way.back(way.target_plain(made)[0])
    notes.pop(way.source, None)
    note = Note(differences(home, plain), spelt)
    if note != Note() and differences(way.written(home, []), bare):
        notes[way.source] = note
    return _with_notes(made, notes)


def _without_notes(job: Object) -> tuple[Object, Notes]:
    """The object and the notes that it carries; what is not a note of ours stays in it until there is one."""
    metadata = job.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if UNSAID not in annotations:
        return job, {}
    try:
        notes = _DECODER.decode(annotations[UNSAID])
    except (msgspec.MsgspecError, TypeError):
        return job, {}
    others = {key: text for key, text in annotations.items() if key != UNSAID}
    bare = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**job, "metadata": {**bare, "annotations": others} if others else bare}, notes


def _with_notes(job: Object, notes: Notes) -> Object:
    if not notes:
        return job
    text = msgspec.json.encode(notes, order="sorted").decode()
    metadata = job.get("metadata") or {}
    return {**job, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), UNSAID: text}}}
