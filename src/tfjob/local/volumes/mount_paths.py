"""Mount paths in texts, for levels without mount namespaces: what a manifest says, led to where the files are.

Only whole paths are replaced: `/data` in `--dir=/data/mnist`, `/a:/data` or `"/data"`, but neither in `/data2` nor in
`s3://bucket/data`, `$HOME/data` or `-I/data`. Paths inside a program cannot be reached.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# A path starts at the start of the text or after one of these. A quote that closes a shell variable ("$HOME"/data)
# goes on with a path; only a file URL's slashes lead to one.
_BEFORE = r"""(?:(?<![^\s=:,;(\[{<>|&@!"'`])|(?<=file://))"""
_CLOSED_VARIABLE = re.compile(r"""(?:[})]|\$\w+)["']$""")
# It ends at the end, before a slash, or before what cannot belong to a name.
_AFTER = r"""(?=$|[/\s=:,;()\[\]{}<>|&@!"'`\\?#])"""


def rewrite(text: str, mapping: Mapping[str, str]) -> str:
    """`text` with every mount path of `mapping` replaced by its folder; the longest path counts."""
    if not mapping:
        return text
    paths = "|".join(re.escape(path) for path in sorted(mapping, key=len, reverse=True))

    def replacement(match: re.Match[str]) -> str:
        if _CLOSED_VARIABLE.search(text, 0, match.start()):
            return match[0]
        return mapping[match[0]]

    return re.sub(f"{_BEFORE}(?:{paths}){_AFTER}", replacement, text)


def rewritten(texts: list[str], mapping: Mapping[str, str]) -> list[str]:
    """The mount paths that occur in `texts`, so that the user can be told."""
    return sorted(
        path for path, folder in mapping.items() if any(rewrite(text, {path: folder}) != text for text in texts)
    )
