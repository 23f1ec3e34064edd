"""Unpacks the files that tfjob sent with a job: python -c PROGRAM PARTS TARGET"""

# It runs in the images of users, the oldest of which have Python 2.7. tfjob removes comments, because pods show it all.
import io
import os
import shutil
import sys
import tarfile

parts, target = sys.argv[1:]
data = io.BytesIO()
for name in sorted(os.listdir(parts)):
    if name.startswith("part-"):
        with open(os.path.join(parts, name), "rb") as part:
            data.write(part.read())
data.seek(0)
# After a restart of its node, a pod still has the files that its containers may have changed.
for name in os.listdir(target):
    shutil.rmtree(os.path.join(target, name))
with tarfile.open(fileobj=data, mode="r:gz") as archive:
    archive.extractall(target, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
# The PYTHONPATH of a container replaces that of its image. The Keras layer restores it from this file.
layer = os.path.join(target, "keras_layer")
if os.path.isdir(layer) and os.environ.get("PYTHONPATH"):
    with open(os.path.join(layer, "pythonpath"), "w") as file:
        file.write(os.environ["PYTHONPATH"])
