"""Writes docs/reference from the code: commands, restarts, the TFJob's fields, JSON output, configuration.

    uv run python tools/reference.py           write
    uv run python tools/reference.py --check   say whether the files are up to date

Names, types, defaults and tables come from the code. Only the sentences beside them are in reference_words.py; a
field without one is an error.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from collections.abc import Iterator
from datetime import datetime
from inspect import cleandoc
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import click
import msgspec
import reference_versions as versions
import reference_words as words

from tfjob.api import types as api
from tfjob.api.defaults import with_defaults
from tfjob.api.dialect import DIALECTS
from tfjob.api.versions.registry import WRITERS
from tfjob.cli import exit_codes as outcome
from tfjob.cli.examples import EXAMPLES
from tfjob.cli.main import COMMANDS, cli
from tfjob.durations import USUAL
from tfjob.jobs.output import KINDS, OUTPUT_VERSION
from tfjob.local.inputs.environment import FROM_HOST, PREFIXES_FROM_HOST, PROXY
from tfjob.local.state import config
from tfjob.plan.policy.restarts import RETRY_TABLE, TF_JOB_TABLE

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
SPEC = ["field", "type", "default", ""]
OLDER_SPEC = ["field", "type", "default", "in v1", ""]
NOTE = "<!-- Written by tools/reference.py from the code; change that, not this. -->\n"


KEPT = "\b\n"
"""Stands before a paragraph whose lines stay as they are."""


class MissingWords(Exception):
    """Something in the code has no sentence in reference_words.py."""


def main(arguments: list[str]) -> int:
    """Writes the pages, or compares them."""
    stale = []
    for name, text in pages().items():
        target = FOLDER / name
        if not target.exists() or target.read_text() != text:
            stale.append(name)
            if "--check" not in arguments:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
    if "--check" in arguments and stale:
        print(f"not up to date: {', '.join(stale)}; run tools/reference.py")
        return 1
    return 0


def pages() -> dict[str, str]:
    """File name -> text of every page."""
    return {
        name: NOTE + text
        for name, text in {
            "commands.md": commands(),
            "restarts.md": restarts(),
            "tfjob.md": tfjob(),
            "json.md": json_output(),
            "configuration.md": configuration(),
        }.items()
    }


# Commands.


def commands() -> str:
    """Every command with its help and options, from click."""
    text = "# Commands\n\n`JOB` is a name, a unique beginning of it, or `@latest`. Every command also takes `--help`.\n"
    context = click.Context(cli, info_name="tfjob")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        text += command_text(command, click.Context(command, info_name=name, parent=context), 2)
    return text + "\n" + exit_codes()


def command_text(command: click.Command, context: click.Context, depth: int) -> str:
    """One command, and those below it."""
    if isinstance(command, click.Group):
        text = f"\n{'#' * depth} {context.command_path}\n\n{prose(command.help)}\n"
        for name, one in command.commands.items():
            text += command_text(one, click.Context(one, info_name=name, parent=context), depth + 1)
        return text
    usage = " ".join(command.collect_usage_pieces(context))
    text = f"\n{'#' * depth} {context.command_path}\n\n```text\n{context.command_path} {usage}\n```\n\n"
    text += f"{prose(command.help)}\n"
    options = [param for param in command.params if isinstance(param, click.Option)]
    if options:
        rows = [[", ".join(map(code, names(option))), option.help or "", default_of(option)] for option in options]
        text += "\n" + table(["option", "", "default"], rows)
    path = context.command_path.removeprefix("tfjob ")
    width = max(len(line) for line, _ in EXAMPLES[path])
    lines = [f"{line:<{width}}   # {what}\n" for line, what in EXAMPLES[path]]
    return f"{text}\n```sh\n{''.join(lines)}```\n"


def names(option: click.Option) -> list[str]:
    """How an option is written, with its value."""
    value = "" if option.is_flag else " " + option.make_metavar(click.Context(cli))
    return [*option.opts[:-1], option.opts[-1] + value]


def default_of(option: click.Option) -> str:
    """An option's default, where that says something."""
    if isinstance(option.show_default, str):
        return option.show_default
    return code(str(option.default)) if option.show_default and option.default not in (None, "", ()) else ""


def prose(text: str | None) -> str:
    """A help text with its lines joined into paragraphs, but for those that click leaves as they are."""
    paragraphs = (text or "").strip().split("\n\n")
    return "\n\n".join(
        f"```text\n{cleandoc(paragraph.partition(KEPT)[2])}\n```" if KEPT in paragraph else " ".join(paragraph.split())
        for paragraph in paragraphs
    )


def exit_codes() -> str:
    """The exit codes, from the module that returns them."""
    codes = {name: value for name, value in vars(outcome).items() if name.isupper() and type(value) is int}
    rows = [[str(value), said(words.EXIT_CODES, name)] for name, value in sorted(codes.items(), key=lambda one: one[1])]
    return "## Exit codes\n\n" + table(["code", "meaning"], rows)


# Restarts.


def restarts() -> str:
    """The retry table and the times, from the module that decides."""
    rows = [[row.cause, row.never, row.exit_code, row.in_place, row.counts] for row in RETRY_TABLE]
    by_type = [[row.cause, row.master, row.worker, row.ps] for row in TF_JOB_TABLE]
    waits = ", ".join(f"{wait.total_seconds():g}" for wait in USUAL.restart_waits)
    settle_gang, settle_tasks = seconds(USUAL.settle_gang), seconds(USUAL.settle_tasks)
    settle_nodes, streak_reset = seconds(USUAL.settle_nodes), seconds(USUAL.streak_reset)
    return (
        "# Restarts\n\nWhat happens when a replica ends, by its `restartPolicy`; `tfjob explain restarts` prints the"
        " same table.\n\n"
        + table(["a replica ends by", "Never", "ExitCode", "OnFailure, Always", "counts against backoffLimit"], rows)
        + "\n- *restart*: the controller makes a new pod; with collectives the whole gang (chief, master and workers)"
        " starts again together.\n"
        "- *in place*: the pod stays and its container starts again, as the kubelet does it.\n"
        f"- A failure that looks permanent waits for its cause, from when it is seen: {settle_gang} in a gang;"
        f" with parameter servers {settle_tasks}, or {settle_nodes} if the cause may be on another"
        " node.\n"
        f"- Restarts by the controller wait {waits} s, and 0 s again after {streak_reset} without one. Each"
        " replica waits for its own restarts, a gang for those of all its members; who may have died of another"
        " replica's end starts no sooner than that one, and an error of one that was started while another was held"
        " back is not held against it, nor is one within a minute after a lost one is back.\n"
        "\n## A TfJob of tensorflow.org/v1alpha1\n\nHere the type of a replica decides, whatever the template's"
        " `restartPolicy` says; MASTER stands for the replica that `terminationPolicy.chief` names. An error of it that"
        " follows the loss of another replica is not blamed on it.\n\n"
        + table(["a replica ends by", "MASTER", "WORKER", "PS"], by_type)
    )


def seconds(span: Any) -> str:
    """A time span in seconds."""
    return f"{span.total_seconds():g} s"


# The TFJob.


def tfjob() -> str:
    """Every field of spec and status, of each version, from the types."""
    text = (
        f"# TFJob\n\n`apiVersion: {api.API_VERSION}`, `kind: {api.KIND}`. tfjob reads and runs these versions:\n\n"
        + "".join(f"- `{version}`\n" for version in DIALECTS)
        + f"\n`tfjob convert` writes {', '.join(map(code, WRITERS))}.\n\nThe replica types are "
        + f"{', '.join(map(code, api.REPLICA_TYPES))}; their case does not matter.\n\n## spec\n\n"
    )
    bare = api.TFJob(spec=api.TFJobSpec(tf_replica_specs={"Worker": api.ReplicaSpec(template={"spec": {}})}))
    filled = with_defaults(bare).spec
    text += table(SPEC, list(field_rows(api.TFJobSpec, "spec", filled)))
    status = [[a, b, d] for a, b, _, d in field_rows(api.TFJobStatus, "status")]
    return text + f"\n## status\n\n{table(['field', 'type', ''], status)}" + older_versions(status)


def older_versions(v1_status: list[list[str]]) -> str:
    """The fields of the other versions, each where that version has it, and what they become in v1."""
    title, spec, status = versions.beta(said, v1_status)
    text = (
        f"\n## {title}\n\nThe fields of the run policy are directly under `spec`. Early releases of v1alpha2 call"
        f" the evaluator `Eval`.\n\n{table(OLDER_SPEC, spec)}\n{table(['field', 'type', 'in v1alpha2', ''], status)}"
    )
    title, spec, status = versions.alpha1(said)
    text += (
        f"\n## {title}\n\nField names are case-insensitive. On a cluster, the operator writes every default, and the"
        " template of default parameter servers, into a TfJob of tensorflow.org. It does not change the spec of a TFJob"
        f" of kubeflow.org.\n\n{table(OLDER_SPEC, spec)}\n{table(['field', 'type', ''], status)}"
    )
    title, spec, _ = versions.batch_job(said)
    return text + f"\n## {title}\n\nEach completion is a worker of a TFJob.\n\n{table(SPEC, spec)}"


def setting_default(value: object) -> str:
    """A key's value where no file has it."""
    return "" if value is None else code(json.dumps(value))


def field_rows(struct: type, path: str, filled: Any = None) -> Iterator[list[str]]:
    """A row a field, nested structs below their field."""
    hints = get_type_hints(struct)
    for field in msgspec.structs.fields(struct):
        name = f"{path}.{field.encode_name}"
        hint = hints[field.name]
        inner = next((one for one in leaves(hint) if isinstance(one, type) and issubclass(one, msgspec.Struct)), None)
        value = getattr(filled, field.name, None)
        plain = isinstance(value, str | int | bool) and value not in ("", None)
        default = code(json.dumps(value).strip('"')) if plain else ""
        yield [code(name), type_name(hint), default, said(words.FIELDS, name)]
        if inner is not None and (inner is not api.Verdict or name == "status.failure"):
            nested = value.get("Worker") if isinstance(value, dict) else value
            suffix = {dict: ".TYPE", list: "[]"}.get(get_origin(hint), "")
            yield from field_rows(inner, f"{name}{suffix}", nested)


def leaves(hint: Any) -> Iterator[Any]:
    """The types inside a type."""
    if get_args(hint):
        for argument in get_args(hint):
            yield from leaves(argument)
    else:
        yield hint


def type_name(hint: Any) -> str:
    """A type as a reader of YAML would say it."""
    arguments = [one for one in get_args(hint) if one is not type(None)]
    if get_origin(hint) in (Union, types.UnionType):
        return type_name(arguments[0])
    if get_origin(hint) is list:
        return f"list of {type_name(arguments[0])}"
    if get_origin(hint) is dict:
        return "object" if arguments[1] is typing.Any else f"map of {type_name(arguments[1])}"
    known = {str: "string", int: "integer", bool: "boolean", datetime: "time", float: "number"}
    return known.get(hint, "object")


# JSON.


def json_output() -> str:
    """Every kind and its fields, from the table that the tests hold the commands to."""
    text = (
        "# JSON output\n\nWith `-o json` a command prints one object (`-o yaml`: the same as YAML) with"
        f" `apiVersion: {OUTPUT_VERSION}` and a `kind`;"
        " a list is an object of kind `...List` with `items`. New fields may come at any time; one that changes its"
        " meaning or goes raises the version. Times are RFC 3339 in UTC, and what does not apply is null, an empty text"
        " or an empty object.\n"
    )
    for name, kind in KINDS.items():
        inherited = KINDS["Job"].fields if name == "JobStatus" else {}
        rows = [[code(field), sentence] for field, sentence in kind.fields.items() if field not in inherited]
        printed = ", ".join(map(code, kind.commands))
        more = " It has the fields of Job, and these:" if inherited else ""
        text += f"\n## {name}\n\n{kind.words} Printed by {printed}.{more}\n\n{table(['field', ''], rows)}"
    return text


# Configuration.


def configuration() -> str:
    """The files and variables that change what tfjob does."""
    image = [[code(key), said(words.IMAGE_KEYS, key)] for key in image_keys()]
    defaults = config.Config()
    local = [
        [code(field.name), setting_default(getattr(defaults, field.name)), said(words.LOCAL_KEYS, field.name)]
        for field in dataclasses.fields(config.Config)
        if field.name not in ("images", "volumes", "files")
    ]
    docstring = (config.__doc__ or "").split("\n\n", 1)[1]
    sample, _, rest = docstring.partition("\n\nThe project")
    sample = "\n".join(line.removeprefix("    ") for line in sample.splitlines())
    environment = [[code(name), sentence] for name, sentence in words.ENVIRONMENT.items()]
    passed = ", ".join(map(code, ("PATH", *FROM_HOST, *PROXY, *(f"{prefix}*" for prefix in PREFIXES_FROM_HOST))))
    return (
        "# Configuration\n\n## tfjob.toml\n\n"
        f'```toml\n{sample}\n```\n\nThe project{prose(rest)}\n\n### images."NAME"\n\n'
        + table(["key", ""], image)
        + "\n### volumes\n\nThe name of a volume of the manifest, and the folder to use for it.\n\n### local\n\n"
        + table(["key", "default", ""], local)
        + "\n## Environment variables\n\n"
        + table(["variable", ""], environment)
        + f"\n## What a replica gets of your environment\n\n{passed} (the proxy variables also in capitals);"
        " `HOSTNAME` is the pod's and `PYTHONUNBUFFERED=1` is set. Then come the variables of the image entry and of"
        " the manifest, each over the one before. Nothing else of your shell reaches a replica.\n"
    )


def image_keys() -> list[str]:
    """The settings of an image entry."""
    return [field.name for field in dataclasses.fields(config.ImageEntry) if field.name not in ("name", "file")]


# Words and tables.


def said(sentences: dict[str, str], name: str) -> str:
    """The sentence about something; every one must have one."""
    if name not in sentences:
        raise MissingWords(f"describe {name} in tools/reference_words.py")
    return sentences[name]


def table(titles: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def code(text: str) -> str:
    """Text as code."""
    return f"`{text}`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
