"""Convert stored jobs between versions without loss, for the conversion webhook and for the 2017 TfJob.

Nothing is checked and nothing is lost: an object that is converted to another version and back stays the same, even if
it is malformed. An annotation of the object keeps what a version cannot express, as differences between the original
and the result of converting back. A manifest that was read from a cluster may have that annotation too.

A difference has a path, a digest of the value at that path, and the original value. The original is restored only if
the digest still matches, so that a later edit wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec

from tfjob.api.conversion import Conversion, Spelling, restore_spelling
from tfjob.api.dialect import TENSORFLOW
from tfjob.api.problems import Problem, errors, path_text
from tfjob.api.types import API_VERSION, UNSAID
from tfjob.api.versions import v1, v1alpha1, v1beta

Object = dict[str, Any]
ALPHA1 = "kubeflow.org/v1alpha1"
OLDER = (*v1beta.VERSIONS, ALPHA1)
"""The versions that can be served in addition to v1, the stored version."""
LONGEST_SHOWN = 60
Difference = list[Any]
"""`[path, digest, original]`: the digest is null if there is no value, and `original` is missing if there was none."""
_NOTHING: Any = object()
_DIGEST_BYTES = 6


class StrangeVersion(ValueError):
    """The version of an object, or the requested one, is not a version of TFJob."""


class Note(msgspec.Struct, omit_defaults=True):
    """What to restore in an object when it is converted to one version: differences, and the spelling of names."""

    differ: list[Difference] = []
    spelt: list[Spelling] = []


Notes = dict[str, Note]
_DECODER = msgspec.json.Decoder(Notes)


def converted(job: Object, api_version: str) -> Object:
    """Return a stored object in another version. Raises StrangeVersion."""
    given = job.get("apiVersion")
    for version in (given, api_version):
        if version not in (API_VERSION, *OLDER, TENSORFLOW):  # it may have any type
            raise StrangeVersion(f"apiVersion {str(version)[:LONGEST_SHOWN]!r} is not a version of TFJob")
    assert isinstance(given, str)
    if given == api_version:
        return job
    if API_VERSION not in (given, api_version):
        return converted(converted(job, API_VERSION), api_version)
    older = given if api_version == API_VERSION else api_version
    module = v1alpha1 if older in (ALPHA1, TENSORFLOW) else v1beta
    # By version: how to convert to it, and to and from its plain form, which has one spelling for each name.
    convert = {older: partial(module.from_v1, api_version=older), API_VERSION: module.to_v1}
    plain = {older: module.plain, API_VERSION: module.plain_v1}
    written = {older: module.written, API_VERSION: restore_spelling}
    bare, notes = _without_notes(job)
    note = notes.pop(api_version, None) or Note()
    source, spelt = plain[given](bare)
    made = written[api_version](put_back(convert[api_version](source), note.differ), note.spelt)
    # The differences are relative to what converting back returns.
    back = convert[given](plain[api_version](made)[0])
    notes.pop(given, None)
    note = Note(list(differences(back, source)), spelt)
    if note != Note() and any(differences(written[given](back, []), bare)):
        notes[given] = note
    return _with_notes(made, notes)


def _without_notes(job: Object) -> tuple[Object, Notes]:
    """Return the object without its notes, and the notes; an annotation that is not a valid note stays."""
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


def apply_notes(manifest: dict[str, Any], conversion: Conversion) -> Conversion:
    """Apply the notes in a manifest's annotation, as a cluster would; a manifest with errors is not changed."""
    noted = UNSAID in conversion.job.metadata.annotations and manifest.get("apiVersion") in (*OLDER, TENSORFLOW)
    if not noted or errors(conversion.problems):
        return conversion
    complete = v1.to_hub(converted(manifest, API_VERSION))
    if faults := errors(complete.problems):
        path = path_text(("metadata", "annotations", UNSAID))
        said = f"adds an error at {faults[0].path}: {faults[0].message}"
        told = Problem(path, said, "restore the text that the cluster wrote, or remove the annotation")
        return replace(conversion, problems=[*conversion.problems, told])
    return replace(conversion, job=complete.job)


def put_back(value: Any, noted: Sequence[Difference]) -> Any:
    """Apply the differences whose digests still match, to a copy of the value."""
    for difference in noted:
        path, digest, *wanted = difference
        value = _changed(value, path, digest, wanted[0] if wanted else _NOTHING)
    return value


def differences(have: Any, want: Any, path: tuple[str | int, ...] = ()) -> Iterator[Difference]:
    # Most parts are identical objects, which need no comparison.
    if have is want:
        return
    if isinstance(have, dict) and isinstance(want, dict):
        for key in sorted(have.keys() | want.keys()):
            yield from differences(have.get(key, _NOTHING), want.get(key, _NOTHING), (*path, key))
    elif isinstance(have, list) and isinstance(want, list) and len(have) == len(want):
        for index, pair in enumerate(zip(have, want, strict=True)):
            yield from differences(*pair, (*path, index))
    elif type(have) is not type(want) or have != want:
        # Compare the types too: in JSON, true is not 1.
        yield [list(path), _digest(have), *([] if want is _NOTHING else [want])]


def _changed(value: Any, path: Sequence[str | int], digest: str | None, wanted: Any) -> Any:
    if not path:
        if _digest(value) == digest:
            return wanted
        both = digest is None and isinstance(value, dict) and isinstance(wanted, dict)
        return _with_missing(value, wanted) if both else value
    step, *rest = path
    if isinstance(value, dict) and (step in value or not rest):
        changed = _changed(value.get(step, _NOTHING), rest, digest, wanted)
        others = {key: item for key, item in value.items() if key != step}
        return others if changed is _NOTHING else {**others, step: changed}
    if isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
        changed = _changed(value[step], rest, digest, wanted)
        return value if changed is _NOTHING else [*value[:step], changed, *value[step + 1 :]]
    return value


def _with_missing(value: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Complete a value that was added since with the original fields that it does not set."""
    merged = {**wanted, **value}
    for key in value.keys() & wanted.keys():
        if isinstance(value[key], dict) and isinstance(wanted[key], dict):
            merged[key] = _with_missing(value[key], wanted[key])
    return merged


def _digest(value: Any) -> str | None:
    if value is _NOTHING:
        return None
    encoded = msgspec.json.encode(value, order="sorted")
    return blake2b(encoded, digest_size=_DIGEST_BYTES).hexdigest()
