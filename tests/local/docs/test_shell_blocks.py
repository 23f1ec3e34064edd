"""What a guide shows without its output (`sh` blocks) is not played; each such block is covered by something else."""

from __future__ import annotations

from support.docs.guide import FENCE, GUIDES, ROOT

COVERED = {
    "README.md": {
        "pip install '.[tensorflow,tensorboard]'": "tests/local/packaging/test_wheel.py",
        "python3 -m venv .uv && .uv/bin/pip install -q uv==0.13.7 && .uv/bin/uv run -q --locked --no-dev": ".ci/run",
        "tfjob init ": "tests/local/training/test_newcomer.py",
        "tfjob operator install --image": "tests/node/operator/test_operator_image.py",
        "python3 -m venv .uv && .uv/bin/pip install -q uv==0.13.7 && .uv/bin/uv run -q --locked --all": ".ci/run",
    },
    "helm.md": {".venv/bin/python tools/release.py": "tests/local/packaging/test_release.py"},
    "operator.md": {
        ".venv/bin/python tools/image.py --output": "tests/node/operator/test_operator_image.py",
        "skopeo copy oci-archive:dist/image/tf-job-operator.tar": "needs a registry, which no test has",
        ".venv/bin/python tools/image.py --tensorboard": "tests/local/board/test_board_image.py",
        "tfjob operator install --image registry.example/tf-job-operator:0.1.0\n": (
            "tests/node/operator/test_operator_image.py"
        ),
        "tfjob operator manifests": "tests/node/operator/test_operator_image.py",
        "tfjob operator install --image registry.example/tf-job-operator:0.1.0 -n team --namespace-only": (
            "tests/cluster/operator/install/test_installation.py"
        ),
        "tfjob operator install --image registry.example/tf-job-operator:0.1.0 --api-versions v1,v1beta1": (
            "tests/cluster/operator/install/test_installation.py"
        ),
        "tfjob operator install --image registry.example/tf-job-operator:0.1.0 --api-versions tensorflow.org": (
            "tests/cluster/operator/install/test_installation.py"
        ),
        "tfjob operator uninstall": "tests/cluster/operator/install/test_installation.py",
    },
    "script.md": {
        "tfjob run train.py --workers 2 --on k8s": "tests/cluster/cli/test_commands_control_plane.py",
        'eval "$(tfjob completion bash)"': "tests/local/cli/test_completion.py",
    },
    "tensorboard.md": {"tfjob submit kept.yaml --on k8s": "tests/node/cli/test_commands_guide.py"},
}
"""By page, how each block begins, and the test that does the same, or why there is none."""


def test_every_shell_block_of_a_guide_is_covered_by_a_test_or_says_why_not() -> None:
    pages = [ROOT / "README.md", *sorted(GUIDES.glob("*.md"))]
    left = {name: dict(blocks) for name, blocks in COVERED.items()}
    uncovered = []
    for page in pages:
        for block in FENCE.finditer(page.read_text()):
            if block["language"] != "sh" or block["name"]:
                continue
            begins = [text for text in left.get(page.name, {}) if block["text"].startswith(text)]
            if len(begins) == 1:
                del left[page.name][begins[0]]
            else:
                uncovered.append(f"{page.name}: {block['text'].splitlines()[0]}")
    assert uncovered == []
    assert not any(left.values()), left


def test_every_test_that_is_to_cover_a_block_is_there() -> None:
    named = {where for blocks in COVERED.values() for where in blocks.values() if " " not in where}
    assert [where for where in named if not (ROOT / where).exists()] == []
