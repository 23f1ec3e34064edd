"""An environment variable of the calling shell that a replica does not inherit."""

import os

print(os.environ["DATASET_FOLDER"])
