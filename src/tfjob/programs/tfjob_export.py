"""Writes a trained model as a SavedModel that tfjob, TensorFlow Serving and other servers can run.

    export(model, inputs={"images": ([None, 28, 28], "uint8")}, scale=1 / 255)

The file needs only TensorFlow 2. `tfjob.export` is its function `export`. An image without tfjob can contain a copy of
the file: `from tfjob_export import export`.

Servers load a SavedModel with TensorFlow's C++ loader. For a model of Keras 3, `tf.saved_model.save` writes files that
only Python's loader can run, because it does not track the variables. `export` therefore lets a tf.Module hold the
variables that the signature reads.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

RECORD = Path("assets.extra", "tfjob.json")
"""What `export` records in a version folder, where servers ignore it: the step, the time and the versions."""


def export(
    model, folder=None, inputs=None, outputs=None, scale=None, signature="serving_default", step=None, version=None
):
    """Write a version of a model and return its folder; return None, without writing, unless this is the chief.

    model: a Keras model, a tf.Module that can be called, or a function of tensors.
    folder: where to write the folder of the version; default: model in TFJOB_OUTPUT_DIR, or output/model without tfjob.
    inputs: the inputs of the signature by name, each as tf.TensorSpec or as (shape, dtype); default: the model's.
    outputs: a function that gets what the model returns, and returns the outputs by name; or the name of the output.
    scale: a factor; the graph converts the inputs to float32 and multiplies them by it.
    signature: the name of the signature, or several names for the same one.
    step: the training step to record; default: the number of steps of the model's optimizer.
    version: a whole number; default: one more than the highest version in the folder.

    The version folder gets its name when it is complete, so that a server never sees a part of it.
    """
    if not is_chief(os.environ.get("TF_CONFIG", "")):
        return None
    folder = os.fspath(folder or (os.environ.get("TFJOB_OUTPUT_DIR") or "output") + "/model")
    if "://" in folder:
        raise ValueError(f"tfjob.export cannot write to an object store ({folder}): pass a folder")
    base = Path(folder)
    number = free_version(base, version)
    base.mkdir(parents=True, exist_ok=True)
    unfinished = base / f".unfinished-{number}"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    save(model, unfinished, inputs, outputs, scale, signature)
    write_record(unfinished, step_of(model) if step is None else int(step))
    flush_to_disk([unfinished, *unfinished.rglob("*")])
    final = base / str(number)
    unfinished.rename(final)
    flush_to_disk([base])
    return str(final)


# The graph.


def save(model, folder, inputs=None, outputs=None, scale=None, signature="serving_default"):
    """Write a SavedModel to a folder; the arguments are those of `export`."""
    import tensorflow as tf

    specs = {name: tensor_spec(tf, name, spec) for name, spec in (inputs or inputs_of(model)).items()}

    @tf.function(input_signature=list(specs.values()))
    def serve(*tensors):
        if scale is not None:
            tensors = [tf.cast(tensor, tf.float32) * scale for tensor in tensors]
        named = {name: tensors[number] for number, name in enumerate(specs)}
        return named_outputs(tf, call(model, named), outputs)

    root = tf.Module()
    if isinstance(model, tf.__internal__.tracking.Trackable):
        root.model = model  # its lookup tables and assets
    # Tracing creates the variables of a model that has not been called yet.
    root.kept = list(serve.get_concrete_function().graph.variables)
    root.serve = serve
    names = [signature] if isinstance(signature, str) else signature
    tf.saved_model.save(root, str(folder), signatures=dict.fromkeys(names, serve))


def inputs_of(model):
    """Return the inputs of a Keras model by name; a single input is called `inputs`."""
    found = getattr(model, "inputs", None)
    if not found:
        raise ValueError("tfjob.export does not know the inputs of this model: pass inputs={NAME: (SHAPE, DTYPE)}")
    if len(found) == 1:
        return {"inputs": (found[0].shape, found[0].dtype)}
    return {one.name: (one.shape, one.dtype) for one in found}


def tensor_spec(tf, name, spec):
    shape, dtype = (spec.shape, spec.dtype) if isinstance(spec, tf.TensorSpec) else spec
    return tf.TensorSpec(shape, dtype, name=name)


def call(model, tensors):
    """Call a model with inputs by name, in the way that its kind expects."""
    if len(tensors) == 1:
        return model(*tensors.values())
    known = getattr(model, "inputs", None)
    if not known:
        return model(**tensors)
    by_name = set(tensors) == {one.name for one in known}
    return model(tensors if by_name else list(tensors.values()))


def named_outputs(tf, result, outputs):
    if callable(outputs):
        result = outputs(result)
    if isinstance(result, dict):
        return result
    results = tf.nest.flatten(result)
    if len(results) == 1:
        return {outputs if isinstance(outputs, str) else "outputs": results[0]}
    return {f"output_{number}": one for number, one in enumerate(results)}


# The version folder.


def is_chief(tf_config):
    """Return whether a process with this TF_CONFIG writes for the whole job: the chief, or the first worker."""
    config = json.loads(tf_config or "{}")
    task = config.get("task") or {}
    cluster = config.get("cluster") or {}
    leader = next((kind for kind in ("chief", "master", "worker") if kind in cluster), "")
    is_first = int(task.get("index", 0)) == 0
    return is_first and task.get("type", leader) == leader if leader else task.get("type") != "evaluator"


def free_version(base, version=None):
    """Return the number for a new version. Raises ValueError if the wanted one exists."""
    numbers = {int(path.name) for path in base.glob("*") if path.name.isdigit()}
    if version is None:
        return max(numbers, default=0) + 1
    if int(version) in numbers:
        raise ValueError(f"version {version} already exists in {base}: choose another number")
    return int(version)


def write_record(folder, step):
    import tensorflow as tf

    record = {
        "step": step,
        "exported": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "tensorflow": tf.__version__,
        "keras": getattr(sys.modules.get("keras"), "__version__", None),
    }
    file = Path(folder) / RECORD
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record))


def step_of(model):
    iterations = getattr(getattr(model, "optimizer", None), "iterations", None)
    return None if iterations is None else int(iterations)


def flush_to_disk(paths):
    """Flush files and folders: after a power failure, a folder that has its final name is complete."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
