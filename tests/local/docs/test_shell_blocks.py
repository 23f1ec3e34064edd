"""Each command that a page shows without its output (`sh` blocks) is run by a test, or is marked as not run."""

from __future__ import annotations

from support.docs.guide import FENCE, GUIDES, ROOT, SHOWN, is_only_shown

COVERED = {
    "README.md": {
        "pip install '.[tensorflow,tensorboard]'": "tests/local/packaging/test_wheel.py",
        "python3 -m venv .uv && .uv/bin/pip install uv==0.13.7 && .uv/bin/uv run --locked --no-dev": ".ci/run",
        "tfjob init ": "tests/local/training/test_newcomer.py",
        "tfjob run -m pkg.train": "tests/local/cli/test_cli_script.py",
        "tfjob operator install --image": "tests/node/operator/test_operator_image.py",
        "python3 -m venv .uv && .uv/bin/pip install uv==0.13.7 && .uv/bin/uv run --locked --all": ".ci/run",
    },
    "docs/guides/helm.md": {".venv/bin/python tools/release.py": "tests/local/packaging/test_release.py"},
    "docs/guides/operator.md": {
        ".venv/bin/python tools/image.py --output": "tests/node/operator/test_operator_image.py",
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
    "docs/guides/script.md": {
        "tfjob run train.py --workers 2 --on k8s": "tests/cluster/cli/test_commands_control_plane.py",
        "tfjob run main.py --on k8s --image registry.example.com/main:1 --in-image": (
            "tests/local/cli/test_cli_script.py"
        ),
        'eval "$(tfjob completion bash)"': "tests/local/cli/test_completion.py",
    },
    "docs/guides/serving.md": {
        "tfjob serve digits --on k8s": "tests/node/serve/test_serve_nodes.py",
        "helm install mnist-job": "tests/cluster/serve/test_chart_serving.py",
    },
    "examples/README.md": {
        "tfjob run examples/mnist/tfjob.yaml": "tests/local/training/test_training_examples.py",
        ".venv/bin/python tools/image.py --sample": "tests/node/chart/test_chart_nodes.py",
    },
    "examples/estimator/README.md": {"uv venv --python 3.11": "tests/long/training/test_estimator.py"},
    "docs/guides/tensorboard.md": {"tfjob submit kept.yaml --on k8s": "tests/node/cli/test_commands_guide.py"},
}
"""By page: how each `sh` block begins, and the test that does the same."""
PAGES = [ROOT / "README.md", *sorted(GUIDES.glob("*.md")), *sorted((ROOT / "examples").rglob("README.md"))]


def test_every_shell_block_is_covered_by_a_test_or_marked_as_not_run() -> None:
    left = {name: dict(blocks) for name, blocks in COVERED.items()}
    uncovered = []
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        for block in FENCE.finditer(page.read_text()):
            if block["language"] != "sh" or block["name"] or is_only_shown(block):
                continue
            begins = [start for start in left.get(name, {}) if block["text"].startswith(start)]
            if len(begins) == 1:
                del left[name][begins[0]]
            else:
                uncovered.append(f"{name}: {block['text'].splitlines()[0]}")
    assert uncovered == []
    assert not any(left.values()), left


def test_only_marked_blocks_show_commands_that_are_not_executed() -> None:
    """A block of another language, such as `text`, has no commands."""
    wrong = [
        f"{page.name}: {line}"
        for page in PAGES
        for block in FENCE.finditer(page.read_text())
        if block["language"] not in ("console", "sh") and not block["name"] and not is_only_shown(block)
        for line in block["text"].splitlines()
        if line.startswith("$ ")
    ]
    assert wrong == []


def test_every_mark_has_a_block_below_it() -> None:
    for page in PAGES:
        text = page.read_text()
        marked = [block for block in FENCE.finditer(text) if is_only_shown(block)]
        assert " ".join(text.split()).count(SHOWN.removesuffix(":")) == len(marked), page


def test_the_sentence_above_a_file_names_it() -> None:
    """Rendered pages do not show the name of a block."""
    unnamed = [
        f"{page.name}: {block['name']}"
        for page in PAGES
        for block in FENCE.finditer(page.read_text())
        if block["name"] and f"`{block['name']}`" not in " ".join(block.string[: block.start()].split("\n\n")[-2:])
    ]
    assert unnamed == []


def test_every_test_that_covers_a_block_exists() -> None:
    named = {where for blocks in COVERED.values() for where in blocks.values()}
    assert [where for where in named if not (ROOT / where).exists()] == []
