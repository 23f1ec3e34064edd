#!/usr/local/bin/python
"""The program `tensorboard` of the image: TensorBoard without TensorFlow that also reads s3:// and gs:// folders.

The credentials of an object store come from `AWS_*` or `GOOGLE_*` variables, otherwise from the identity of the pod
(web identity or pod identity of EKS, the metadata servers of EC2 and GCE). TensorFlow's `S3_ENDPOINT` works too.

The program is TensorBoard's `main` with all its plugins. It replaces the web files and the server, which TensorBoard
takes as arguments: TensorBoard's own read and compress every web file before the first answer, a third of the start.
"""

import io
import mimetypes
import os
import sys
import zipfile

PROTOCOLS = ("s3", "gs")
READERS = "/app-stores"
"""The folder of the packages that read object stores; next to the others, TensorBoard would load them for folders."""
READ_ALL = ("--load_fast=false", "--reload_multifile=true")
"""Turn off TensorBoard's fast reader, which supports neither S3 nor a pod's identity, and follow all files of a run."""
INDEX = "index.html"
DAY = 86400


def main() -> None:
    """Run TensorBoard with the arguments of the command line."""
    arguments = sys.argv[1:]
    if any(f"{protocol}://" in word for word in arguments for protocol in PROTOCOLS):
        use_object_stores()
        arguments = [*READ_ALL, *arguments]
    sys.argv = ["tensorboard", *arguments]
    from absl import app
    from tensorboard import default, main_lib, program
    from tensorboard.plugins import base_plugin

    main_lib.global_init()
    board = program.TensorBoard(default.get_plugins(), assets_zip_provider=index, server_class=serve)
    try:
        app.run(board.main, flags_parser=board.configure)
    except base_plugin.FlagsError as error:
        sys.exit(f"Error: {error}")


def web_files() -> io.BufferedReader:
    """Return TensorBoard's web files, a zip archive."""
    from tensorboard import assets

    return assets.get_default_assets_zip_provider()()


def index() -> io.BytesIO:
    """Return an archive with the only web file that TensorBoard must serve, because it changes it."""
    only = io.BytesIO()
    with web_files() as file, zipfile.ZipFile(file) as all_files, zipfile.ZipFile(only, "w") as archive:
        archive.writestr(INDEX, all_files.read(INDEX))
    only.seek(0)
    return only


def serve(application, flags):
    """Return TensorBoard's server with our `Site` in front of it."""
    from tensorboard import program

    return program.create_port_scanning_werkzeug_server(Site(application, flags.path_prefix), flags)


class Site:
    """A WSGI application that reads each web file when a browser requests it, and passes on all other requests."""

    def __init__(self, application, prefix: str) -> None:
        self._application = application
        self._prefix = prefix
        with web_files() as file, zipfile.ZipFile(file) as archive:
            self._names = set(archive.namelist()) - {INDEX}

    def __call__(self, environ, start_response):
        name = environ.get("PATH_INFO", "").removeprefix(self._prefix).removeprefix("/")
        if name in self._names:
            return self._file(name, environ)(environ, start_response)

        def start_plainly(status, headers, *rest):
            # The proxy of an API server corrects links in HTML. If it does not know the encoding, such as `identity`,
            # it drops the whole page. Leaving the header out means the same.
            return start_response(status, [one for one in headers if one != ("Content-Encoding", "identity")], *rest)

        return self._application(environ, start_plainly)

    @staticmethod
    def _file(name: str, environ):
        from tensorboard.backend import http_util
        from werkzeug.wrappers import Request

        request = Request(environ)
        with web_files() as file, zipfile.ZipFile(file) as archive:
            content = archive.read(name)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        # A file that is requested by the digest of its content never changes.
        return http_util.Respond(request, content, kind, expires=DAY if "_file_hash" in request.args else 0)


def use_object_stores() -> None:
    """Let TensorBoard read from object stores."""
    endpoint = os.environ.get("S3_ENDPOINT", "")
    if endpoint and "://" not in endpoint:
        endpoint = f"{'http' if os.environ.get('S3_USE_HTTPS') == '0' else 'https'}://{endpoint}"
    if endpoint:
        os.environ.setdefault("AWS_ENDPOINT_URL", endpoint)
    if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        os.environ.setdefault("AWS_ALLOW_HTTP", "true")
    sys.path.append(READERS)
    from obstore.fsspec import register

    register(list(PROTOCOLS))


if __name__ == "__main__":
    main()
