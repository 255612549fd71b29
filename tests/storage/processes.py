"""Processes of a job that a test looks for."""

import os
import sys
import time


def await_child(parent, name):
    """The pid of a process with that name which comes from `parent` and has begun its checkpoints."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    is_one = file.read().strip() == name
                if is_one and parent in ancestors(int(pid)):
                    time.sleep(0.3)  # it has come into its loop; where it is killed does not matter
                    return int(pid)
            except OSError:
                pass
    return sys.exit(f"no {name} came")


def ancestors(pid):
    found = []
    while pid > 1:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            pid = int(file.read().rsplit(")", 1)[1].split()[1])
        found.append(pid)
    return found


def any_process_with(variable):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as file:
                if int(pid) != os.getpid() and variable in file.read():
                    return True
        except OSError:
            pass
    return False
