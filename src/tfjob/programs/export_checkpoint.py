"""Exports the latest checkpoint of a model: python export_checkpoint.py model.py:build CHECKPOINTS FOLDER

The function `build` of the file model.py returns the model, without variables from a checkpoint, or a pair: the model
and a dictionary with arguments of `tfjob.export` (inputs, outputs, scale, signature). The program writes a SavedModel
to FOLDER, and prints a line of JSON: the checkpoint and its step, or an error.

It understands checkpoints of tf.train.Checkpoint, with the model as root or as an attribute of any name; checkpoints of
TensorFlow 1, whose variables have names; and files that Keras writes: NAME.weights.h5 and NAME.keras.
"""

import glob
import importlib.util
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from tfjob_export import save, write_record

ATTRIBUTE = "/.ATTRIBUTES/VARIABLE_VALUE"
GRAPH, COUNTER = "_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter"
STEPS = ("step", "global_step", "optimizer/_iterations", "optimizer/iterations", "optimizer/iter")
"""Where checkpoints contain the step, most likely first."""
FITTING = "The function must build the model that the program has trained."


class Problem(Exception):
    """An error for the user: what is wrong, and what to do."""

    def __init__(self, message, hint=""):
        Exception.__init__(self, message)
        self.hint = hint


def main(program, checkpoints, folder):
    model, options = build(program)
    latest, step = restore(model, checkpoints)
    save(model, folder, **options)
    write_record(folder, step)
    return {"checkpoint": latest, "step": step}


def build(program):
    """Call the function of a program that builds the model; return the model and arguments for its export."""
    path, _, name = program.rpartition(":")
    if not os.path.isfile(path):
        raise Problem("there is no file %s in %s" % (path or program, os.getcwd()), "Name it as FILE:FUNCTION.")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not callable(getattr(module, name, None)):
        raise Problem("%s has no function %s" % (path, name), "Name a function that returns the model.")
    built = getattr(module, name)()
    return built if isinstance(built, tuple) else (built, {})


def restore(model, checkpoints):
    """Load the latest checkpoint of a folder into the model; return its path and its step."""
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")  # it warns about each value that an attempt has not restored
    latest = tf.train.latest_checkpoint(checkpoints)
    files = [path for end in ("*.weights.h5", "*.keras") for path in glob.glob(os.path.join(checkpoints, end))]
    if latest is None and files:
        latest = max(files, key=os.path.getmtime)
        try:
            model.load_weights(latest)
        except ValueError as error:
            reason = " ".join(str(error).partition("Target variable:")[0].split())
            raise Problem("%s does not fit the model: %s" % (latest, reason), FITTING)
        return latest, None
    if latest is None:
        raise Problem("there is no checkpoint in %s" % checkpoints, "Name the folder: --checkpoints FOLDER")
    reader = tf.train.load_checkpoint(latest)
    shapes = reader.get_variable_to_shape_map()
    if GRAPH in shapes:
        restore_objects(tf, model, latest, reader)
    else:
        restore_names(model, latest, reader, shapes)
    return latest, step_in(reader, shapes, latest)


def restore_objects(tf, model, latest, reader):
    """Restore a checkpoint of tf.train.Checkpoint: the model is its root or, under any name, a child of the root."""
    # The usual name first.
    names = sorted(set(children_of_root(reader)), key=lambda name: (name != "model", name))
    differences = []
    for checkpoint in [tf.train.Checkpoint(**{name: model}) for name in names] + [tf.train.Checkpoint(model)]:
        try:
            checkpoint.restore(latest).assert_existing_objects_matched().expect_partial()
        except AssertionError:
            continue  # this name means another object
        except ValueError as error:
            differences.append(first_line(error))
        else:
            return
    if differences:
        raise Problem("%s does not fit the model: %s" % (latest, differences[0]), FITTING)
    named = ", ".join(names) or "nothing"
    raise Problem("%s does not contain all variables of the model; it contains %s" % (latest, named), FITTING)


def children_of_root(reader):
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(reader.get_tensor(GRAPH))
    return [child.local_name for child in graph.nodes[0].children if child.local_name != COUNTER]


def restore_names(model, latest, reader, shapes):
    """Restore a checkpoint of TensorFlow 1, in which each variable has a name."""
    for variable in model.variables:
        name = getattr(variable, "path", variable.name).split(":")[0]  # Keras 3 has a path, TensorFlow NAME:0
        if name not in shapes:
            known = ", ".join(sorted(shapes)[:20])
            raise Problem("%s does not contain the variable %s; it contains %s" % (latest, name, known), FITTING)
        if list(shapes[name]) != list(variable.shape):
            message = "%s does not fit the model: %s has the shape %s in the checkpoint, %s in the model"
            raise Problem(message % (latest, name, shapes[name], list(variable.shape)), FITTING)
        variable.assign(reader.get_tensor(name))


def step_in(reader, shapes, latest):
    for name in STEPS:
        for key in (name + ATTRIBUTE, name):
            if key in shapes:
                return int(reader.get_tensor(key))
    number = os.path.basename(latest).rpartition("-")[2]
    # Without a step, tf.train.Checkpoint counts how often it was saved.
    return int(number) if number.isdigit() and COUNTER + ATTRIBUTE not in shapes else None


def first_line(error):
    return str(error).strip().split("\n")[0]


if __name__ == "__main__":
    try:
        answer = main(*sys.argv[1:])
    except Problem as problem:
        answer = {"error": str(problem), "hint": problem.hint}
    print()
    print(json.dumps(answer))
