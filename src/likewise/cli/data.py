"""``likewise data``: public data sets, their licences, whether their files here are right, and downloads."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from typer import Argument, Option

from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.settings import DataDir, Json, command
from likewise.errors import UsageError


@command
def data(
    names: Annotated[list[str] | None, Argument(help="Data sets, such as stsb; default: all.")] = None,
    check: Annotated[bool, Option("--check", help="Compare the rows of the files with the published ones.")] = False,
    download: Annotated[bool, Option("--download", help="Show the licence, then download what is named.")] = False,
    accept_licence: Annotated[bool, Option("--accept-licence", help="With --download: do not ask.")] = False,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """List the public data sets of the studies with their licences, check their files, or download them."""
    from likewise.data.public import report

    if download:
        if not names:
            raise UsageError("--download needs the name of a data set; likewise data lists them")
        for name in names:
            _download(name, accept_licence, data_dir)
    elif accept_licence:
        raise UsageError("--accept-licence goes with --download; leave it out")
    Output(None, None, None, as_json).show(report(names or (), data_dir, check or download))


def _download(name: str, accepted: bool, data_dir: DataDir) -> None:
    from likewise.data.public import download as fetch
    from likewise.data.public import downloadable

    found, _ = downloadable(name)
    notice(f"{found.title}. Licence: {found.licence} See {found.page}")
    if not accepted:
        if not sys.stdin.isatty():
            raise UsageError(f"add --accept-licence to download {found.name} under this licence")
        typer.confirm("Download it under this licence?", abort=True, err=True)
    with progress_bar() as progress:
        for path in fetch(found.name, data_dir, progress):
            notice(f"wrote {path}")
