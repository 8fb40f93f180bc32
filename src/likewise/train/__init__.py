"""Training: fine-tunes an encoder on scored pairs or on several tasks, and reports the results."""

from likewise.train.config import TaskConfig, TrainConfig, parse_config
from likewise.train.examples import Example, Source
from likewise.train.report import TrainReport
from likewise.train.results import EvalResult
from likewise.train.runs import train, train_tasks
from likewise.train.tasks import Limits, Task, read_tasks

__all__ = [
    "EvalResult",
    "Example",
    "Limits",
    "Source",
    "Task",
    "TaskConfig",
    "TrainConfig",
    "TrainReport",
    "parse_config",
    "read_tasks",
    "train",
    "train_tasks",
]
