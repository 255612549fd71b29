#!/usr/bin/env python3
"""Sockets of running jobs are shut down from outside, as a firewall, a reset or a driver would do it.

    sockets_test.py --oshrun build/bin/oshrun --programs build [CASE...]     # no CASE: a sample
    sockets_test.py ... --sweep [--transport ofi]                            # every socket of every process, a job each

Between processes of the job (data, and control messages between nodes): the job goes on and its result is right, because
what is lost is sent again. Of any other one (mailboxes inside a node, the lines to oshrun and to the launcher, ports):
the same, or a recovery, or one line and a code that is not zero, in time. The nodes are pretended.
"""

import argparse
import ctypes
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))

from bench import Bench, Wrong, await_commit, check, check_ended, check_success, run_cases  # noqa: E402
from job_watch import Launcher  # noqa: E402

JACOBI = ["--cells", "2000", "--steps", "320", "--halo", "16", "--pace", "10"]
NODES = 3
PIDFD_GETFD = 438
EXPECTED = {}

LIBC = ctypes.CDLL(None, use_errno=True)


def borrowed(pidfd, number):
    """The socket behind a descriptor of another process; None: it is no socket."""
    fd = LIBC.syscall(PIDFD_GETFD, pidfd, number, 0)
    if fd < 0:
        return None
    try:
        return socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        return None


def ends_of(sock):
    try:
        return sock.getsockname(), sock.getpeername()
    except OSError:
        return None


class Sockets:
    """Of all processes of a job, at one moment."""

    def __init__(self, job):
        processes = [job.holder(pe) for pe in range(job.shape.pes)] + list(job.sleepers())
        self.all = []  # rank, descriptor, socket
        for rank, pid in sorted(process for process in processes if process is not None and process[0] is not None):
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue  # the job has ended: its outcome tells
            for number in sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd")):
                sock = borrowed(pidfd, number)
                if sock is not None:
                    self.all.append((rank, number, sock))
            os.close(pidfd)
        self.pairs = {ends_of(sock) for _, _, sock in self.all if sock.family in (socket.AF_INET, socket.AF_INET6)}

    def sort_of(self, sock):
        """What it is for: "between" leads to another process of the job over TCP."""
        if sock.family == socket.AF_UNIX:
            names = [sock.getsockname()] + list(ends_of(sock) or ())
            return "mailbox" if any(isinstance(name, bytes) and b"shmem-ft-mail" in name for name in names) else "line"
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) != socket.SOCK_STREAM:
            return "datagrams"
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return "port"
        ends = ends_of(sock)
        return "between" if ends is not None and (ends[1], ends[0]) in self.pairs else "launcher"

    def shut(self, is_chosen):
        n = 0
        for index, (rank, _, sock) in enumerate(self.all):
            if is_chosen(index, rank, self.sort_of(sock)):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                    n += 1
                except OSError:
                    pass
        return n


def expected(bench):
    if not EXPECTED:
        outcome = bench.run(4, 0, "jacobi1d", *JACOBI, SHMEM_SYMMETRIC_SIZE="1M")
        check_ended(outcome)
        EXPECTED["jacobi"] = outcome.results()
    return EXPECTED["jacobi"]


def running(bench, transport):
    job = bench.job(4, 2, "jacobi1d", *JACOBI, SHMEM_FT_PRETEND_NODES=str(NODES), SHMEM_SYMMETRIC_SIZE="1M",
                    SHMEM_TRANSPORT=transport)
    await_commit(job, 3)
    return job


def check_either(outcome, results):
    """Nobody waits for ever, and nothing is wrong."""
    check_ended(outcome)
    if outcome.exit_code == 0:
        check_success(outcome, results)
    else:
        check(outcome.errors(), "no line says why", outcome)


def between(transport, rank):
    """All connections of one process with others, three times."""
    def case(bench):
        results = expected(bench)
        job = running(bench, transport)
        n = 0
        for version in (4, 6, 8):
            n += Sockets(job).shut(lambda _, owner, sort: sort == "between" and owner == rank)
            await_commit(job, version)
        outcome = job.finish()
        check(n >= 3, "there were no connections to shut down", outcome)
        check_success(outcome, results)

    return case


def others(transport, sort):
    """All sockets of this sort of one process."""
    def case(bench):
        results = expected(bench)
        job = running(bench, transport)
        n = Sockets(job).shut(lambda _, owner, its_sort: its_sort == sort and owner == 1)
        outcome = job.finish()
        check(n != 0, "there were no sockets to shut down", outcome)
        check_either(outcome, results)

    return case


def sweep(bench, transport):
    """The exit code of a test. Jobs differ a little in their sockets, so the order is what counts, not the number."""
    results = expected(bench)
    wrong, index, n_sockets = 0, 0, 1
    while index < n_sockets:
        job = running(bench, transport)
        sockets = Sockets(job)
        n_sockets = len(sockets.all)
        rank, _, sock = sockets.all[min(index, n_sockets - 1)]
        sort = sockets.sort_of(sock)
        sockets.shut(lambda i, *_: i == index)
        outcome = job.finish()
        try:
            if sort == "between":
                check_success(outcome, results)
            else:
                check_either(outcome, results)
            print(f"ok    {transport} socket {index + 1} of {n_sockets}: process {rank}, {sort}, "
                  f"exit code {outcome.exit_code}", flush=True)
        except Wrong as what:
            wrong += 1
            print(f"WRONG {transport} socket {index + 1} of {n_sockets}: process {rank}, {sort}: {what}", flush=True)
            print(outcome.stdout, outcome.stderr, sep="\n", flush=True)
        index += 1
    return 1 if wrong else 0


CASES = {
    "ucx-between-a-pe": between("ucx", 1),
    "ucx-between-the-first": between("ucx", 0),
    "ucx-mailbox": others("ucx", "mailbox"),
    "ucx-line": others("ucx", "line"),
    "ofi-between-a-pe": between("ofi", 1),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--transport", default="ucx")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    bench = Bench(Launcher(options.oshrun), options.programs, options.timeout)
    return sweep(bench, options.transport) if options.sweep else run_cases(bench, CASES, options.cases)


if __name__ == "__main__":
    sys.exit(main())
