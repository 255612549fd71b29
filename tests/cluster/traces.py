"""What a cluster could leave behind, how tests wait, and what they do where no cluster can be made."""

import os
import subprocess
import sys
import time
import unittest

from cluster import Cluster, Unavailable

TOKEN_NAME = "CLUSTER_TEST_TOKEN"


def eventually(condition, timeout_s=10):
    """Waits until condition() is true; returns its value."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.01)


def processes_with(token):
    """Pids of all that carry the token in their environment, whoever their parent is now; zombies do not count."""
    mark = f"{TOKEN_NAME}={token}".encode()
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            pass
    return found


def children():
    """Pids of this process's children, zombies as well."""
    found = set()
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
            found.update(map(int, file.read().split()))
    return found


def living_children(but):
    """Pids of this process's children, but for some; those that have ended are taken off the kernel's list first.

    In a process that adopts orphans an empty answer says that no descendant lives, however they fork meanwhile: whoever
    ends hands its children over before it can be taken off the list.
    """
    for pid in children() - but:
        os.waitpid(pid, os.WNOHANG)
    return children() - but


def _lines(*command):
    return set(subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.splitlines())


def names_on_machine():
    """Everything with a name that a cluster could have made outside of itself."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        mounts = {line.split()[4] for line in file}
    with open("/proc/net/dev", encoding="ascii") as file:
        devices = {line.split(":")[0].strip() for line in file if ":" in line}
    shared = {f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if "cluster" in name}
    with open("/etc/hosts", encoding="utf-8", errors="replace") as file:
        hosts = set(file)
    return _lines("ip", "netns", "list") | mounts | devices | shared | hosts | {os.uname().nodename}


def run_or_skip():
    """The exit status of the calling file's tests; 77: this machine allows no cluster."""
    try:
        Cluster(hosts=1).close()
    except Unavailable as error:
        print(f"skipped: {error}", file=sys.stderr)
        return 77
    return 0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1
