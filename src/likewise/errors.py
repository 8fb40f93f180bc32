"""The exception classes; every message is one line that names the fix."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """The first line of another library's message.

    >>> first_line(ValueError("no\\nyes"))
    'no'
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class LikewiseError(Exception):
    """Anything the user can fix; the command line prints it and exits with 2."""


class UsageError(LikewiseError):
    """An argument or a setting that does not fit."""


class ModelError(LikewiseError):
    """A model that cannot be found, read or trusted."""


class DataError(LikewiseError):
    """A file, a row or a text that cannot be used."""


class DamagedIndex(DataError):
    """An index whose files are damaged; build it again."""


class TrainingError(LikewiseError):
    """A training run that cannot continue."""


class MissingExtra(LikewiseError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f'{package} is not installed; run: pip install "likewise[{extra}]"')

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return MissingExtra, (self.package, self.extra)


class Cancelled(LikewiseError):
    """Raised inside a progress callable to stop the work and leave a state that can be resumed."""
