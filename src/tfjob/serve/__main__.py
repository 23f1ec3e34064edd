"""`python -m tfjob.serve`: a model server with the flags of `tensorflow_model_server`."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # grpcio reads this when it is imported; by default it logs each handshake that fails, and anyone can cause those.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        from tfjob.serve.server import main
    except ModuleNotFoundError as error:
        hint = f"To install it: {sys.executable} -m pip install 'tfjob[serve,tensorflow]'"
        sys.exit(f"error: the Python module {error.name} is not installed\nhint: {hint}")

    sys.exit(main(sys.argv[1:], os.environ))
