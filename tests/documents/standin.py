"""What the images of the blocks hold: says who it is and leaves a file where the documents' programs do."""

import json
import os
import sys
from pathlib import Path

task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
print("I am", task.get("type"), task.get("index"), *sys.argv[1:], flush=True)
for folder in (Path("/app/tf_files"), Path("/tmp/tensorflow")):
    if folder.is_dir():
        (folder / "written").touch()
