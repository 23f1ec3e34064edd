from __future__ import annotations

import pytest

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
    ("image", "said", "advice"),
    [
        ("<USER>/x", "placeholder <USER>", "write the image's name"),
        ("someone/<SAMPLE IMAGE>", "placeholder <SAMPLE IMAGE>", "write the image's name"),
        ("${image}:1", "placeholder ${image}", "pass -p image=..."),
        ("{{ .Values.image }}", "placeholder {{ .Values.image }}", "write the image's name"),
        ("Someone/Digits:V1", "is no image name", "in lower case: someone/digits:V1"),
        ("a b", "is no image name", "remove the spaces"),
        ("https://gcr.io/a", "is no image name", "leave out https://"),
        ("a:", "is no image name", "write a tag"),
        ("a//b", "is no image name", "registry/path:tag"),
        ("-a", "is no image name", "registry/path:tag"),
        ("a:" + "t" * 129, "is no image name", "registry/path:tag"),
        ("a@sha256:123", "is no image name", "registry/path:tag"),
        ("a/" * 127 + "abc", "257 characters long, 255 are possible", ""),
    ],
)
def test_what_is_no_image_name_is_refused_with_advice(image: str, said: str, advice: str) -> None:
    message, hint = image_fault(image)
    assert said in message
    assert advice in hint
