from __future__ import annotations

import pytest

from support.golden import Wording
from tfjob.api.image_reference import image_fault


@pytest.mark.parametrize(
    "image",
    [
        "tf",
        "tensorflow/tensorflow:2.16.1-gpu",
        "gcr.io/tf-on-k8s/tf_sample:dc944ff",
        "localhost:5000/a/b__c/d--e.f",
        "Registry.Example.org/a",
        "[::1]:5000/a",
        "a@sha256:" + "0" * 64,
        "a:tag@sha256:" + "0" * 64,
        "a:" + "t" * 128,
    ],
)
def test_image_names_of_registries_are_accepted(image: str) -> None:
    assert image_fault(image) == ("", "")


@pytest.mark.parametrize(
    ("image", "keyword"),
    [
        ("<USER>/x", "<USER>"),
        ("someone/<SAMPLE IMAGE>", "<SAMPLE IMAGE>"),
        ("${image}:1", "${image}"),
        ("{{ .Values.image }}", "{{ .Values.image }}"),
        ("Someone/Digits:V1", "Someone/Digits:V1"),
        ("a b", "a b"),
        ("https://gcr.io/a", "https://"),
        ("a:", "a:"),
        ("a//b", "a//b"),
        ("-a", "-a"),
        ("a:" + "t" * 129, "a:ttt"),
        ("a@sha256:123", "a@sha256:123"),
        ("a/" * 127 + "abc", "257"),
    ],
)
def test_what_is_no_image_name_is_refused_with_advice(image: str, keyword: str, wording: Wording) -> None:
    message, hint = image_fault(image)
    assert keyword in message
    wording(message, hint)
