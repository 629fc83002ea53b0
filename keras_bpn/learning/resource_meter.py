import re
import time

import tensorflow as tf

try:
    import resource
except ImportError:  # There is none on Windows.
    resource = None

_STATUS, _RESET = "/proc/self/status", "/proc/self/clear_refs"


class ResourceMeter:
    """The seconds and the memory that a task takes.

    Memory is the most that was used at any time: on GPUs, where there are
    any, otherwise by the process. Where the system cannot start the count anew
    for each task, it is the most since the process started; where it does not
    count at all, 0.
    """

    def __init__(self):
        self.start()

    def start(self, seconds: float = 0.0, peak_memory: int = 0):
        """Starts to count.

        Args:
            seconds, peak_memory: What `read()` returned before the run was
                stopped.
        """
        self._earlier = seconds
        self._peak = peak_memory
        self._start = time.monotonic()
        for gpu in _gpus():
            tf.config.experimental.reset_memory_stats(gpu)
        try:
            # Linux starts its count of the peak anew for this.
            with open(_RESET, "w") as file:
                file.write("5")
        except OSError:
            pass

    def read(self) -> tuple[float, int]:
        """Returns the seconds and the bytes since `start()`."""
        seconds = self._earlier + time.monotonic() - self._start
        return seconds, max(self._peak, _peak_memory())


def _gpus():
    gpus = tf.config.list_logical_devices("GPU")
    return [gpu.name.removeprefix("/device:") for gpu in gpus]


def _peak_memory():
    if _gpus():
        info = tf.config.experimental.get_memory_info
        return sum(info(gpu)["peak"] for gpu in _gpus())
    try:
        with open(_STATUS) as file:
            (kibibytes,) = re.findall(r"VmHWM:\s*(\d+) kB", file.read())
        return 1024 * int(kibibytes)
    except (OSError, ValueError):
        pass
    if resource is None:
        return 0
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
