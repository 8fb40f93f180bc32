"""Processes of servers: who runs them, who belongs to them, where they listen."""

from __future__ import annotations

import ipaddress
import os
import pwd
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from store_programs import ServerError

USER = "nobody"
"""Runs the servers where we are root; elsewhere they run as ourselves."""
GIVEN_PORTS: set[int] = set()
"""Ports of servers that may not listen yet."""


def as_user(*options: str) -> list[str]:
    """The start of a command that drops all privileges."""
    drop = ["--reuid", USER, "--regid", str(pwd.getpwnam(USER).pw_gid), "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *drop, "--no-new-privs", *options, "--"]


def give(path: Path) -> None:
    """Make the user of the servers the owner of a file or folder."""
    if os.geteuid() == 0:
        os.chown(path, pwd.getpwnam(USER).pw_uid, pwd.getpwnam(USER).pw_gid)


def may(test: str, path: Path) -> bool:
    """Whether the user of the servers may read, write or run a path: ``test`` is -r, -w or -x."""
    return subprocess.run([*as_user(), "test", test, str(path)]).returncode == 0


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, below those that outgoing connections take; no port twice in a process."""
    found: list[int] = []
    # Not the module's own generator: hypothesis seeds it, and two test runs would choose the same ports.
    for port in random.SystemRandom().sample(range(20_000, 32_000), 1000):
        if port in GIVEN_PORTS:
            continue
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
        GIVEN_PORTS.add(port)
        found.append(port)
        if len(found) == count:
            return found
    raise ServerError(f"this machine has no {count} free ports between 20000 and 32000")


def statistics(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on; None where the process has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields


def birth(pid: int) -> str | None:
    """When a process started; with its number it names a process for ever. None where it has ended."""
    fields = statistics(pid)
    return None if fields is None else fields[19]


def family(pid: int) -> list[int]:
    """A process, its descendants and its group, those that have ended left out."""
    running = {int(path.name): statistics(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    members = {number for number, fields in running.items() if fields and (number == pid or int(fields[2]) == pid)}
    grows = True
    while grows:
        children = {number for number, fields in running.items() if fields and int(fields[1]) in members}
        grows = not children <= members
        members |= children
    return sorted(members)


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to processes; some may have ended."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def wait_for_end(pids: Iterable[int], seconds: float) -> bool:
    """Whether all processes end in time."""
    end = time.monotonic() + seconds
    while any(statistics(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def memory(pids: Iterable[int]) -> int:
    """The bytes of memory of processes, shared pages divided by their users."""
    total = 0
    for pid in pids:
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        total += 1024 * int(found.group(1)) if found else 0
    return total


def listening(pids: Iterable[int]) -> list[str]:
    """The addresses, as HOST:PORT, that processes listen on by TCP or UDP."""
    wanted = set(pids)
    shown = subprocess.run(["ss", "-lntupH"], capture_output=True, text=True, check=True, timeout=30).stdout
    return sorted(
        line.split()[4] for line in shown.splitlines() if wanted & {int(pid) for pid in re.findall(r"pid=(\d+)", line)}
    )


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address HOST:PORT."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "*":
        return False
    parsed = ipaddress.ip_address(host.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def check_loopback(pids: Iterable[int]) -> list[str]:
    """The addresses that processes listen on; an error where another machine may reach one, or none is seen."""
    found = listening(pids)
    if not found:
        raise ServerError("ss shows no listening port of the server, so its addresses cannot be checked")
    if wrong := [address for address in found if not is_loopback(address)]:
        raise ServerError(f"the server must listen on loopback only, but it listens on {', '.join(wrong)}")
    return found
