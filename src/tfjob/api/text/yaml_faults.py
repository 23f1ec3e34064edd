"""What the YAML parser complains about, in words that say what to do."""

from __future__ import annotations

import yaml


def explained(error: yaml.MarkedYAMLError, text: str, line: int, column: int) -> tuple[str, str]:
    """The parser's words in ours, with what to do."""
    lines = text.splitlines() or [""]
    here = lines[line] if line < len(lines) else ""
    said = error.problem or error.context or "it cannot be read"
    context_line = error.context_mark.line + 1 if error.context_mark else 0
    indentation = here[: len(here) - len(here.lstrip())]
    if "\t" in indentation or here[column : column + 1] == "\t":
        return "a tab stands where YAML wants spaces", "indent with spaces"
    if "mapping values are not allowed" in said:
        return "a second ': ' on this line, or a line that is indented too far", "quote the value, or align the line"
    if "found unexpected end of stream" in said or "unexpected end" in said:
        return f"the quote that opens on line {context_line} is never closed", "close it"
    if "did not find expected key" in said or "expected <block end>" in said:
        indent = f" on line {context_line} (indented by {error.context_mark.column})" if error.context_mark else ""
        return f"this line does not fit the block that starts{indent}", "align it with the lines that it belongs to"
    if "could not find expected ':'" in said:
        return "a key without ': ' after it", "write 'key: value', or check the indentation"
    if "expected ',' or" in said:
        closing = "]" if "]" in said else "}"
        return (
            f"the bracket that opens on line {context_line} is not closed with '{closing}'",
            "check commas and brackets",
        )
    if "'-' indicator" in said or "block sequence entries are not allowed" in said:
        return "a list item ('- ') is not possible here", "check the indentation"
    if "cannot start any token" in said:
        return f"a value cannot start with {here[column : column + 1]!r}", "put it in quotes"
    if "undefined tag handle" in said:
        return "a value cannot start with '!'", "put it in quotes"
    return f"this is not YAML: {said}", ""
