"""The train room: encoder + tasks + config -> a better encoder and a report; one loop, tasks are data."""

from likewise.train.config import TaskConfig, TrainConfig, parse_config
from likewise.train.eval_result import EvalResult
from likewise.train.examples import Example
from likewise.train.report import TrainReport
from likewise.train.sources import Source
from likewise.train.tasks import Limits, Task, read_tasks
from likewise.train.training import train

__all__ = [
    "Example",
    "Limits",
    "Outcome",
    "Source",
    "Task",
    "TaskConfig",
    "TrainConfig",
    "TrainReport",
    "parse_config",
    "read_tasks",
    "train",
]
