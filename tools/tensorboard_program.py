#!/usr/local/bin/python
"""The program `tensorboard` of our image: TensorBoard without TensorFlow that also reads s3:// and gs:// folders.

An object store is read with what its own tools take: `AWS_*` or `GOOGLE_*` variables, else the identity of the pod
(web identity or pod identity of EKS, the metadata servers of EC2 and GCE). TensorFlow's `S3_ENDPOINT` is understood.
"""

import os
import sys

PROTOCOLS = ("s3", "gs")
READ_ALL = ("--load_fast=false", "--reload_multifile=true")
"""TensorBoard's own fast reader knows neither S3 nor a pod's identity; it is what follows several files of one run."""


def main() -> None:
    """Runs TensorBoard with the words of the command line."""
    arguments = sys.argv[1:]
    if any(f"{protocol}://" in word for word in arguments for protocol in PROTOCOLS):
        use_object_stores()
        arguments = [*READ_ALL, *arguments]
    sys.argv = ["tensorboard", *arguments]
    from tensorboard.main import run_main

    pass_api_servers()
    run_main()


def pass_api_servers() -> None:
    """Lets its pages through the proxy of an API server.

    That looks into HTML to correct links, and of an encoding that it does not know, `identity` among them, it passes on
    nothing at all. The header means no more than its absence.
    """
    from tensorboard.backend import http_util

    respond = http_util.Respond

    def respond_plainly(*args: object, **settings: object) -> object:
        response = respond(*args, **settings)
        if response.headers.get("Content-Encoding") == "identity":
            del response.headers["Content-Encoding"]
        return response

    http_util.Respond = respond_plainly


def use_object_stores() -> None:
    """Lets TensorBoard read from object stores."""
    endpoint = os.environ.get("S3_ENDPOINT", "")
    if endpoint and "://" not in endpoint:
        endpoint = f"{'http' if os.environ.get('S3_USE_HTTPS') == '0' else 'https'}://{endpoint}"
    if endpoint:
        os.environ.setdefault("AWS_ENDPOINT_URL", endpoint)
    if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        os.environ.setdefault("AWS_ALLOW_HTTP", "true")
    from obstore.fsspec import register

    register(list(PROTOCOLS))


if __name__ == "__main__":
    main()
