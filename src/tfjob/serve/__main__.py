"""`python -m tfjob.serve`: a model server with the flags of `tensorflow_model_server`."""

from __future__ import annotations

import os
import sys

from tfjob.serve.server import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
