from keras_bpn.models import task_transfer
from keras_bpn.models.task_modes import TaskModes
from keras_bpn.models.task_registry import NEW
from keras_bpn.models.workers import is_chief


class TaskFiles(TaskModes):
    """A functional model whose modes can be saved and loaded one by one."""

    def save_task(self, path, task, overwrite=False):
        """Saves what one task alone owns: a task pack.

        That are its bias units, its head and its classes, with `PSP` the seed
        of its keys, and numbers by which the shared weights can be compared
        with others. The shared weights are not among them. Where several
        workers train the model, the chief alone writes.

        Args:
            path: Path of the file, in the format of safetensors. It is written
                beside its target and moved into place.
            task: Name of a task that has ended.
            overwrite: Whether to replace what is there.

        Example:

        >>> model.save_task("birds.safetensors", "birds")
        """
        self._registry.check_ended(task)
        if is_chief(self.distribute_strategy):
            task_transfer.write_pack(self, path, task, overwrite)

    def load_task(self, path, name=None):
        """Adds a task from a file that `save_task` wrote.

        The network has to have the same layers and shapes. Layers are matched
        by their names; those that Keras has numbered are counted within the
        network. A warning says how far the shared weights are from those of
        the model that the task was saved from, as an estimate from sketches of
        both. Methods that keep something of each task by itself, such as `GEM`
        and `LwF`, have nothing of a loaded one. A model that is to be trained
        further is compiled first.

        Args:
            path: Path of the file.
            name: String, the name that the task gets. Defaults to the one that
                it was saved with.

        Returns:
            The name of the task.

        Example:

        >>> model.save_task("fish.safetensors", "fish")
        >>> model.load_task("fish.safetensors", name="more fish")
        'more fish'
        """
        if name is not None:
            self._registry.check_new_name(name)
        pack = task_transfer.read_pack(self, path)
        if name is None and pack.task in self._registry:
            raise ValueError(
                "Expected the name of the task not to be taken. Give it "
                "another with `load_task(path, name=...)`. "
                f"Received: task {pack.task!r} from {path}"
            )
        name = pack.task if name is None else name
        rows, origins = task_transfer.fit_pack(self, pack)
        task_transfer.warn_of_other_weights(self, pack)
        self._add_ended_task(name, pack.classes, rows, origins, pack.trained)
        self._keep_keys_apart(origins)
        return name

    def _keep_keys_apart(self, origins):
        """Lets no task that is not trained yet have one of these keys."""
        taken = {o[1] for keys, o in origins if o[0] == keys.seed}
        if not taken:
            return
        self._registry.skip_serial(max(taken))
        for task in self.tasks:
            is_new = self._registry.state(task) == NEW
            if is_new and self._registry.serial(task) in taken:
                self._registry.renew_serial(task)
                for table in self.task_tables:
                    table.give_row(
                        self._registry.row(task), self._registry.serial(task)
                    )
