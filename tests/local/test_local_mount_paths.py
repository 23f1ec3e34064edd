"""Which mentions of a mount path are led to its folder, and which are left alone."""

from __future__ import annotations

import pytest

from tfjob.local.volumes.volumes import rewrite_all_paths, rewrite_paths

MAPPING = {"/data": "/s/v/data", "/data/cache": "/s/v/cache", "/train": "/s/v/train", "/etc/app.yaml": "/s/app.yaml"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/s/v/data"),
        ("/data/", "/s/v/data/"),
        ("/data/mnist/x", "/s/v/data/mnist/x"),
        ("--d=/data/mnist/x", "--d=/s/v/data/mnist/x"),
        ("/a:/data:/train", "/a:/s/v/data:/s/v/train"),
        ("/data/cache/1", "/s/v/cache/1"),
        ("/data/cached", "/s/v/data/cached"),
        ('{"dir": "/data/x", "l": ["/train"]}', '{"dir": "/s/v/data/x", "l": ["/s/v/train"]}'),
        ('{\\"dir\\": \\"/data\\"}', '{\\"dir\\": \\"/s/v/data\\"}'),
        ("python m.py --d /data && cp -r /data/x /train", "python m.py --d /s/v/data && cp -r /s/v/data/x /s/v/train"),
        ("ls </data/x>/train/y;echo", "ls </s/v/data/x>/s/v/train/y;echo"),
        ("open(f'/data/{i}')", "open(f'/s/v/data/{i}')"),
        ("$(ls /data)", "$(ls /s/v/data)"),
        ("file:///data/x", "file:///s/v/data/x"),
        ("--conf=@/etc/app.yaml", "--conf=@/s/app.yaml"),
        ("/data,/data/cache,/train", "/s/v/data,/s/v/cache,/s/v/train"),
    ],
)
def test_a_whole_path_is_led_to_its_folder(text: str, expected: str) -> None:
    assert rewrite_paths(text, MAPPING) == expected


@pytest.mark.parametrize(
    "text",
    [
        "/data2",
        "/data-x",
        "/data_x",
        "/data.txt",
        "/etc/app.yamlx",
        "s3://b/data",
        "gs://data/x",
        "https://host/train",
        "-I/train",
        "/mnt/data",
        "./data",
        "../data",
        "$HOME/data",
        "${HOME}/data",
        '"$HOME"/data',
        '"${HOME}"/data',
        '"$(pwd)"/data',
        "~/data",
        "data",
        "",
    ],
)
def test_anything_else_is_left_alone(text: str) -> None:
    assert rewrite_paths(text, MAPPING) == text


def test_what_was_put_in_is_not_rewritten_again() -> None:
    assert rewrite_paths("/data", {"/data": "/train/data", "/train": "/x"}) == "/train/data"


def test_the_paths_that_were_rewritten_are_known() -> None:
    assert rewrite_all_paths(["--d=/data/x", "-I/train"], MAPPING) == ["/data"]
