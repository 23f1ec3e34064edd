"""Write the generated parts of charts/tf-job-operator: CRDs, rights, webhooks, presets and the version.

    uv run python tools/chart.py           write
    uv run python tools/chart.py --check   report whether the files are up to date

The rest of the chart is written by hand. tests/cluster/chart/test_chart_templates.py compares the output of the whole
chart with `tfjob operator manifests`.
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
    """Write the files, or compare them."""
    old = stale()
    if "--check" in arguments:
        if old:
            print(f"out of date: {', '.join(old)}; run tools/chart.py")
        return 1 if old else 0
    for name, text in old.items():
        target = CHART / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return 0


def stale() -> dict[str, str]:
    """Return the files that are missing or out of date, each with its correct text."""
    return {
        name: text
        for name, text in files().items()
        if not (CHART / name).exists() or (CHART / name).read_text() != text
    }


def files() -> dict[str, str]:
    """Return the text of each file of the chart, for every API version; the templates leave out unwanted versions."""
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
