#!/usr/local/bin/python
"""The programs of the image of the model server, with the names that they have in TensorFlow Serving's image.

`tensorflow_model_server` takes the flags of that program. `tf_serving_entrypoint` is the entry point: it first adds the
flags for the model that the environment variables MODEL_NAME and MODEL_BASE_PATH name, and the ports 8500 and 8501.
"""

import os
import sys
from pathlib import Path

ENTRY_POINT = "tf_serving_entrypoint"


def main() -> int:
    """Run the model server with the arguments of the command line."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # as in src/tfjob/serve/__main__.py
    from tfjob.api.servers import entry_arguments
    from tfjob.serve.server import main as serve

    given = entry_arguments(os.environ) if Path(sys.argv[0]).name == ENTRY_POINT else []
    return serve([*given, *sys.argv[1:]], os.environ)


if __name__ == "__main__":
    sys.exit(main())
