"""Write the generated parts of the charts: the versions, and CRDs, rights, webhooks and presets of tf-job-operator.

    uv run python tools/chart.py           write
    uv run python tools/chart.py --check   report whether the files are up to date

The rest of the charts is written by hand. tests/cluster/chart/test_chart_templates.py compares the output of the whole
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
CHARTS = PROJECT / "charts"
CHART, SERVING = CHARTS / "tf-job-operator", CHARTS / "tf-serving"
NOTE = "# Written by tools/chart.py from the code; change that, not this.\n"


def main(arguments: list[str]) -> int:
    """Write the files, or compare them."""
    old = stale()
    if "--check" in arguments:
        if old:
            print(f"out of date: {', '.join(old)}; run tools/chart.py")
        return 1 if old else 0
    for name, text in old.items():
        target = CHARTS / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return 0


def stale() -> dict[str, str]:
    """Return the files that are missing or out of date, each with its correct text."""
    return {
        name: text
        for name, text in files().items()
        if not (CHARTS / name).exists() or (CHARTS / name).read_text() != text
    }


def files() -> dict[str, str]:
    """Return the text of each file, for every API version; the templates leave out unwanted versions."""
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
    operator = {
        "Chart.yaml": _with_version((CHART / "Chart.yaml").read_text(), "version|appVersion"),
        **{f"files/crds/{one['metadata']['name']}.yaml": NOTE + plain_yaml([one]) for one in crds("", versions)},
        "files/rules.yaml": NOTE + plain_yaml([rules]),
        "files/user-roles.yaml": NOTE + plain_yaml([rbac.for_users(versions.groups)]),
        "files/webhook.yaml": NOTE + plain_yaml([webhook("", versions)]),
        **{f"files/presets/{file.name}": file.read_text() for file in sorted(PRESETS.glob("*.yaml"))},
    }
    # The appVersion of the other chart is that of TensorFlow Serving.
    serving = {"Chart.yaml": _with_version((SERVING / "Chart.yaml").read_text(), "version")}
    parts = (CHART, operator), (SERVING, serving)
    return {f"{chart.name}/{name}": text for chart, part in parts for name, text in part.items()}


def _with_version(text: str, fields: str) -> str:
    return re.sub(rf"^({fields}): .*$", rf"\1: {__version__}", text, flags=re.MULTILINE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
