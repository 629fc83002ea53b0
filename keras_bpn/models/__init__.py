"""Models that switch modes."""

from keras_bpn.models.bpn_model import BPNModel
from keras_bpn.models.single_task_models import SingleTaskModels
from keras_bpn.models.storage import Storage
from keras_bpn.models.task_summary import TaskSummary

__all__ = ["BPNModel", "SingleTaskModels", "Storage", "TaskSummary"]
