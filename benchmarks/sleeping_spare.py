"""What does a sleeping spare cost? CPU seconds and memory of a spare while the PEs of its job compute.

Runs the Jacobi application with one spare, reads the spare's /proc entries after some seconds, and ends the job.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_kib(pid: int) -> dict[str, int]:
    result = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("Rss", "Pss", "Private_Clean", "Private_Dirty"):
            result[name.lower()] = int(rest.split()[0])
    return result


def spare_pid(events: pathlib.Path, n_pes: int) -> int:
    """The pid of the process behind the PEs, once it has said that it sleeps."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for line in events.read_text().splitlines() if events.exists() else []:
            event = json.loads(line)
            kind = event.get("event", event.get("kind"))
            if kind == "initialized" and event.get("rank") == n_pes:
                return event["pid"]
        time.sleep(0.05)
    raise SystemExit("sleeping_spare: error: no spare has reported")


def measure(build: pathlib.Path, n_pes: int, seconds: float) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        events = pathlib.Path(folder) / "events"
        command = [build / "bin/oshrun", "-n", str(n_pes), "--spares", "1", "--events", events,
                   build / "apps/jacobi1d", "--steps", "100000000", "--cells", "1000000"]
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            pid = spare_pid(events, n_pes)
            before = cpu_seconds(pid)
            time.sleep(seconds)
            return {"what": "sleeping_spare", "seconds": seconds, "cpu_seconds_at_start": before,
                    "cpu_seconds_asleep": cpu_seconds(pid) - before, **memory_kib(pid)}
        finally:
            job.send_signal(signal.SIGTERM)
            job.wait()


if __name__ == "__main__":
    print(json.dumps(measure(pathlib.Path(sys.argv[1]), n_pes=2, seconds=10.0)))
