"""Writes the parts of charts/tf-job-operator that the code knows: CRDs, rights, webhooks, presets and the version.

    uv run python tools/chart.py           write
    uv run python tools/chart.py --check   say whether the files are up to date

The rest of the chart is written by hand; tests/cluster/chart/test_chart_templates.py compares what both make with what
`tfjob operator manifests` prints.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tfjob import __version__
from tfjob.api.text.writer import plain_yaml
from tfjob.operator.api_versions import KNOWN, ApiVersions
from tfjob.operator.install import rbac
from tfjob.operator.install.manifests import crds, webhook

PROJECT = Path(__file__).parent.parent
PRESETS = PROJECT / "src" / "tfjob" / "operator" / "presets"
CHART = PROJECT / "charts" / "tf-job-operator"
NOTE = "# Written by tools/chart.py from the code; change that, not this.\n"


def main(arguments: list[str]) -> int:
    """Writes the files, or compares them."""
    old = stale()
    if "--check" in arguments:
        if old:
            print(f"not up to date: {', '.join(old)}; run tools/chart.py")
        return 1 if old else 0
    for name, text in old.items():
        target = CHART / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return 0


def stale() -> dict[str, str]:
    """The files that are not as they should be, each with its proper text."""
    return {
        name: text
        for name, text in files().items()
        if not (CHART / name).exists() or (CHART / name).read_text() != text
    }


def files() -> dict[str, str]:
    """File of the chart -> its text; with every API version, of which the templates leave out what is not wanted."""
    versions = ApiVersions.read(",".join(KNOWN))
    rules = {
        "kubeflow": rbac.TFJOB_RULES,
        "tensorflow": rbac.TF_JOB_RULES,
        "jobs": rbac.JOB_RULES,
        "cluster": rbac.CLUSTER_RULES,
        "conversion": rbac.CONVERSION_RULES,
        "lease": rbac.LEASE_RULES,
        "test": rbac.TEST_RULES,
    }
    return {
        "Chart.yaml": _with_version((CHART / "Chart.yaml").read_text()),
        **{f"files/crds/{one['metadata']['name']}.yaml": NOTE + plain_yaml([one]) for one in crds("", versions)},
        "files/rules.yaml": NOTE + plain_yaml([rules]),
        "files/user-roles.yaml": NOTE + plain_yaml([rbac.for_users(versions.groups)]),
        "files/webhook.yaml": NOTE + plain_yaml([webhook("", versions)]),
        **{f"files/presets/{file.name}": file.read_text() for file in sorted(PRESETS.glob("*.yaml"))},
    }


def _with_version(text: str) -> str:
    return re.sub(r"^(version|appVersion): .*$", rf"\1: {__version__}", text, flags=re.MULTILINE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
