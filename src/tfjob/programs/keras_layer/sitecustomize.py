"""Makes Keras 3 train under MultiWorkerMirroredStrategy with several workers, as it does on one machine.

Keras reduces batches and metrics in a way that TensorFlow rejects for several workers (keras-team/keras#20585), and its
BackupAndRestore lets every worker write the same file. The layer replaces these functions of Keras, only in the
versions that it knows, and only for models with several workers. Models that several workers would train differently
from one are refused with an error.

A replica imports this file as `sitecustomize`, because PYTHONPATH begins with its folder; a warm start loads it after
the fork. It also runs in the images of users, the oldest of which have Python 2.7.
"""

import os
import sys

SWITCH = "TFJOB_KERAS_LAYER"  # the value 0 turns the layer off
REPORT = "TFJOB_KERAS_REPORT"  # names a file, to which the layer writes the version of Keras when it is first used
TO_LOG = "log"  # with this value, it writes a line to the log instead
PYTHONPATH = "pythonpath"  # a file next to this one with the PYTHONPATH that the layer hides
TRAINER = "keras.src.backend.tensorflow.trainer"
BACKUP = "keras.src.callbacks.backup_and_restore"
VERSIONS = ("3.12.", "3.13.", "3.14.", "3.15.")
DIGESTS = {
    TRAINER: (
        "a2d27809c892984dbe407d7b6c4ca368bfa84318820f979681b904825c63b78c",
        "2bf9eb6fdeddf0a32d047fa0733c9a41975795c35ce597d54cec8057004eff25",
        "a639e89bb357751ea7e987dd071ae1c0045627266b000c5b6093e49fbcfe67f5",
    ),
    BACKUP: ("d7be0e74e2fd0e4cba3c5b77eb2be9e99b70d65d2920f51ce91a98c1c01347df",),
}
"""The SHA-256 of the modules whose functions are replaced, in these versions of Keras."""


def install():
    """Replace the functions now if Keras is loaded, otherwise as soon as it is. Never raises."""
    if "TF_CONFIG" not in os.environ or os.environ.get(SWITCH) == "0" or sys.version_info < (3, 6):
        return
    if TRAINER in sys.modules:
        replace_functions()
    else:
        sys.meta_path.insert(0, Finder())


class Finder(object):
    """Finds the module of Keras' trainer, once; the functions are replaced when it has been executed."""

    def find_spec(self, name, path=None, target=None):
        if name != TRAINER:
            return None
        sys.meta_path.remove(self)
        try:
            specs = (finder.find_spec(name, path, target) for finder in sys.meta_path)
            spec = next(spec for spec in specs if spec is not None)
            execute = spec.loader.exec_module

            def execute_and_replace(module):
                execute(module)
                replace_functions()

            spec.loader.exec_module = execute_and_replace
        except Exception:
            return None  # a loader of an unusual kind: Keras stays as it is
        return spec


def replace_functions():
    """Replace all functions, or none if this Keras is unknown."""
    try:
        import hashlib

        from keras.src.version import __version__ as version

        if not version.startswith(VERSIONS):
            return
        for module, digests in DIGESTS.items():
            with open(sys.modules[module].__file__, "rb") as source:
                if hashlib.sha256(source.read()).hexdigest() not in digests:
                    return
        layer = Layer(sys.modules[TRAINER], sys.modules[BACKUP], version)
        for owner, name, function in layer.functions():
            setattr(owner, name, function)
    except Exception:
        return  # without the layer, Keras reports its own error


class Layer(object):
    """The functions that replace those of Keras; they call the originals unless a model has several workers."""

    def __init__(self, trainer, backup, version):
        self.trainer = trainer
        self.tf = trainer.tf
        self.tree = trainer.tree
        self.policies = trainer.tf.data.experimental.AutoShardPolicy
        self.backup = backup
        self.version = version
        self.report = os.environ.get(REPORT)
        self.add = None

    def functions(self):
        """Return the owner, the name and the replacement of each function."""
        model, backup = self.trainer.TensorFlowTrainer, self.backup.BackupAndRestore
        replaced = [
            (self.trainer, "reduce_per_replica", self.reduce_per_replica),
            (model, "fit", self.fit),
            (model, "_maybe_symbolic_build", self.build),
            (model, "_make_function", self.make_function),
            (model, "_get_metrics_result_or_logs", self.results),
            (model, "predict", self.predict),
            (model, "predict_on_batch", self.predict_on_batch),
            (self.trainer.TFEpochIterator, "__init__", self.start_epochs),
            (backup, "on_train_begin", self.restore),
            (backup, "_save_model", self.save),
            (backup, "on_train_end", self.end),
        ]
        return [(owner, name, bind(getattr(owner, name), function)) for owner, name, function in replaced]

    def has_peers(self, strategy):
        return self.trainer._collective_all_reduce_multi_worker(strategy)

    def refuse(self, why, instead):
        raise RuntimeError(
            "tfjob refuses this with Keras %s and several workers: %s. %s" % (self.version, why, instead)
        )

    # Functions of the trainer

    def reduce_per_replica(self, original, values, strategy, reduction):
        """Keras takes the mean along axis 0, which scalars do not have."""
        if reduction not in ("auto", "mean") or not self.has_peers(strategy):
            return original(values, strategy, reduction)
        return self.tree.map_structure(lambda value: strategy.reduce("MEAN", value, axis=None), values)

    def fit(self, original, model, *args, **kwargs):
        strategy = model.distribute_strategy
        if self.has_peers(strategy):
            callbacks = kwargs.get("callbacks", args[5] if len(args) > 5 else None)
            callbacks = self.tree.flatten(getattr(callbacks, "callbacks", callbacks))
            count = sum(isinstance(one, self.backup.BackupAndRestore) for one in callbacks)
            if int(self.of_chief(strategy, [count])[0]) != count:
                self.refuse(
                    "BackupAndRestore is not among the callbacks of every worker, so they would resume differently",
                    "Pass it on every worker; only the chief writes the backup.",
                )
        return original(model, *args, **kwargs)

    def build(self, original, model, iterator=None, data_batch=None):
        """Keras takes the mean of the workers' batches, which are tuples; only the shapes of one are needed."""
        strategy = model.distribute_strategy
        if not self.has_peers(strategy):
            original(model, iterator, data_batch)
            return
        self.report_use()
        if iterator is not None:
            batches = next(iter(iterator))[2]
            data_batch = self.tree.map_structure(lambda value: self.local(strategy, value), next(batches))
        with strategy.scope():
            model._symbolic_build(data_batch=data_batch)
        self.check_variables(model, strategy)

    def local(self, strategy, value):
        if isinstance(value, self.tf.experimental.Optional):
            return None
        return strategy.experimental_local_results(value)[0]

    def check_variables(self, model, strategy):
        """Refuse variables of one worker only: they would not be equal, and metrics would not count other workers."""
        for variable in model.trainable_variables + model.metrics_variables + optimizer_variables(model):
            if not strategy.extended.variable_created_in_scope(variable._value):
                self.refuse(
                    "%s was created outside strategy.scope(), so every worker would have its own" % variable.path,
                    "Create the model, its metrics and its optimizer, and compile it, inside the scope.",
                )

    def make_function(self, original, model, step_function):
        if self.has_peers(model.distribute_strategy):
            if model.jit_compile:
                self.refuse("XLA cannot compile steps that several workers share", "Compile with jit_compile=False.")
            if model.steps_per_execution != 1:
                self.refuse("it runs one step per execution", "Compile with steps_per_execution=1.")
            if step_function == model.train_step:
                self.check_training(model)
        return original(model, step_function)

    def check_training(self, model):
        """Refuse what Keras computes from the part of a batch that one worker has, instead of the whole batch."""
        optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
        for name in ("clipnorm", "global_clipnorm", "clipvalue"):
            if getattr(optimizer, name, None) is not None:
                self.refuse("%s would clip the gradients of each worker before they are added" % name, "Remove it.")
        averages = getattr(optimizer, "use_ema", False)
        for name, is_used in (("gradient_accumulation_steps", True), ("ema_overwrite_frequency", averages)):
            if is_used and getattr(optimizer, name, None):
                self.refuse("%s makes steps conditional, and workers cannot share such steps" % name, "Remove it.")
        for loss in self.tree.flatten(model.loss):
            if getattr(loss, "reduction", None) == "mean_with_sample_weight":
                self.refuse(
                    "mean_with_sample_weight would divide by the weights of one worker",
                    "Use another reduction for the loss.",
                )

    def results(self, original, model, logs):
        """Keras calls this after each epoch. Variables such as those of BatchNormalization get the workers' mean."""
        strategy = model.distribute_strategy
        if self.has_peers(strategy):
            variables = [one for one in model.non_trainable_variables if one._value.dtype.is_floating]
            totals = self.sum(strategy, [one._value for one in variables]) if variables else []
            for variable, total in zip(variables, totals):
                variable.assign(total / strategy.num_replicas_in_sync)
        return original(model, logs)

    def start_epochs(self, original, iterator, **kwargs):
        """Refuse unsharded datasets: each worker reads all rows in small batches, but Keras counts the large ones."""
        dataset, is_counted = kwargs.get("x"), bool(kwargs.get("steps_per_epoch"))
        is_shared = self.has_peers(kwargs.get("distribute_strategy")) and isinstance(dataset, self.tf.data.Dataset)
        if is_shared and not is_counted and self.sharding(dataset) == self.policies.OFF:
            self.refuse(
                "the dataset has AutoShardPolicy.OFF, so an epoch would skip a part of it",
                "Pass the number of steps, or use another policy.",
            )
        original(iterator, **kwargs)

    def predict(self, original, model, x, *args, **kwargs):
        """Give each worker a part of each batch, because parts of files would return the rows in another order."""
        if self.has_peers(model.distribute_strategy) and isinstance(x, self.tf.data.Dataset):
            if self.sharding(x) == self.policies.OFF:
                self.refuse("the dataset has AutoShardPolicy.OFF, so rows would be repeated", "Use another policy.")
            options = self.tf.data.Options()
            options.experimental_distribute.auto_shard_policy = self.policies.DATA
            x = x.with_options(options)
        return original(model, x, *args, **kwargs)

    def sharding(self, dataset):
        return dataset.options().experimental_distribute.auto_shard_policy

    def predict_on_batch(self, original, model, x):
        if self.has_peers(model.distribute_strategy):
            self.refuse("predict_on_batch returns the rows of all workers", "Call the model, or use predict.")
        return original(model, x)

    # Functions of the callback BackupAndRestore: the backup of the chief counts for every worker

    def restore(self, original, callback, logs=None):
        model, strategy = callback.model, callback.model.distribute_strategy
        if not self.has_peers(strategy):
            original(callback, logs)
            return
        restored = 0
        if strategy.extended._is_chief:
            original(callback, logs)
            if self.backup.file_utils.exists(callback._weights_path):
                restored = 1 + (model._initial_epoch or 0)
        restored = int(self.of_chief(strategy, [restored])[0])
        if restored:
            model._initial_epoch = restored - 1
            variables = model.variables + optimizer_variables(model)
            values = self.of_chief(strategy, [variable._value for variable in variables])
            for variable, value in zip(variables, values):
                variable.assign(value)

    def save(self, original, callback):
        strategy = callback.model.distribute_strategy
        if not self.has_peers(strategy) or strategy.extended._is_chief:
            original(callback)

    def end(self, original, callback, logs=None):
        strategy = callback.model.distribute_strategy
        if not self.has_peers(strategy) or strategy.extended._is_chief:
            original(callback, logs)

    def of_chief(self, strategy, values):
        return self.sum(strategy, values, only_chief=True)

    def sum(self, strategy, values, only_chief=False):
        """Return the sums of the replicas' values, which are numbers, tensors or variables."""
        tf = self.tf
        if self.add is None:

            def own(values, only_chief):
                is_first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
                counts = tf.logical_or(is_first, tf.logical_not(only_chief))
                return [tf.where(counts, value, tf.zeros_like(value)) for value in values]

            def add(values, only_chief):
                found = strategy.run(own, args=(values, only_chief))
                return [strategy.reduce("SUM", one, axis=None) for one in found]

            self.add = tf.function(add, autograph=False)  # TensorFlow warns when a strategy runs eagerly
        values = [tf.convert_to_tensor(value) for value in values]
        # Collectives support few types of integers.
        carried = [value if value.dtype.is_floating else tf.cast(value, tf.int64) for value in values]
        return [tf.cast(one, value.dtype) for one, value in zip(self.add(carried, tf.constant(only_chief)), values)]

    def report_use(self):
        if self.report == TO_LOG:
            sys.stderr.write(
                "tfjob: Keras %s trains on several workers with the compatibility layer of tfjob (%s=0 turns it off)\n"
                % (self.version, SWITCH)
            )
            self.report = None
        elif self.report:
            try:
                with open(self.report, "w") as file:
                    file.write(self.version)
            except (IOError, OSError):
                pass  # the report is a service to users; training does not depend on it
            self.report = None


def optimizer_variables(model):
    return list(getattr(model.optimizer, "variables", ()))


def bind(original, function):
    """Return `function` with the original as its first argument, as a function that can be a method."""

    import functools  # not when every interpreter starts

    @functools.wraps(original)
    def replacement(*args, **kwargs):
        return function(original, *args, **kwargs)

    return replacement


def add_hidden_paths(folder):
    """Add the folders that were on PYTHONPATH before the layer replaced it, as it must in pods."""
    try:
        with open(os.path.join(folder, PYTHONPATH)) as file:
            hidden = [os.path.abspath(place) for place in file.read().split(os.pathsep) if place]
    except (IOError, OSError):
        return
    at = sys.path.index(folder) + 1 if folder in sys.path else 0
    sys.path[at:at] = [place for place in hidden if place not in sys.path]


def run_hidden():
    """Import the `sitecustomize` that this file hides, if there is one."""
    folder = os.path.dirname(os.path.abspath(__file__))
    add_hidden_paths(folder)
    sys.path[:] = [place for place in sys.path if place != folder]
    own = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401 -- it is imported for what it does
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = own


if __name__ == "sitecustomize":
    install()
    run_hidden()
