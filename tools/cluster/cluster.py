"""A cluster in one machine: hosts made of namespaces, for tests and for trying things out.

    with Cluster(hosts=4, slots=2) as cluster:
        job = cluster.start(["mpirun", "-n", "8", "./program"])
        cluster.kill_host(2)
        cluster.cut(1)
        cluster.heal(1)
        code = job.wait(30)

Hosts are given by index or by name (`node0` is 0). Every call has a time limit and raises ClusterError with one line
that says what is wrong; Unavailable (a ClusterError) where clusters cannot be made at all, which tests skip. Not
thread-safe.

However the process ends that has made a Cluster, SIGKILL included, everything of it is gone within moments: see
cluster_hub.py.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid

MESSAGE_BYTES_MAX = 1 << 20
START_TIMEOUT_S = 60  # for hundreds of hosts on a busy machine; four take a fifth of a second
REQUEST_TIMEOUT_S = 60
CLOSE_TIMEOUT_S = 20
SOCKET_PREFIX = "\0shmem-ft-cluster/"
HOSTS_MAX = 200  # a byte of the address
HUB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cluster_hub.py")


class ClusterError(Exception):
    pass


class Unavailable(ClusterError):
    """Hosts cannot be made here, whatever is asked for: no root, no namespaces, no iproute2."""


class Program:
    """A program that runs on a host. Ends with SIGTERM when this is closed or its process dies."""

    def __init__(self, connection):
        self._connection = connection
        self._code = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def fileno(self):
        """Readable when the program has ended, for `select`."""
        return self._connection.fileno()

    def poll(self):
        """The exit code (128 + the signal if one killed it), or None while it runs."""
        if self._code is None and select.select([self._connection], [], [], 0)[0]:
            self._code = _receive(self._connection, REQUEST_TIMEOUT_S)[0]["exit"]
        return self._code

    def wait(self, timeout_s):
        """The exit code; raises ClusterError if the program has not ended by then. None waits for ever."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self.poll() is None:
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                raise ClusterError(f"a program still runs after {timeout_s} s")
            select.select([self._connection], [], [], left_s)
        return self._code

    def signal(self, number):
        """To the program's process group."""
        if self.poll() is None:
            with contextlib.suppress(OSError):
                self._connection.send(json.dumps({"do": "signal", "number": int(number)}).encode())

    def close(self):
        self._connection.close()


def _receive(connection, timeout_s):
    """The answer to a request, as (message, file descriptors)."""
    if not select.select([connection], [], [], timeout_s)[0]:
        raise ClusterError(f"the cluster has not answered within {timeout_s} s")
    try:
        data, fds, _, _ = socket.recv_fds(connection, MESSAGE_BYTES_MAX, 1)
    except OSError:
        data, fds = b"", []
    if not data:
        raise ClusterError("the cluster has ended")
    message = json.loads(data)
    if "error" in message:
        raise ClusterError(message["error"])
    return message, fds


class Hosts:
    """A cluster that runs, whoever has made it."""

    def __init__(self, address):
        self._address = address
        self._inodes = {}
        description = self.describe()
        self.name = description["name"]
        self.slots = description["slots"]
        self.hosts = [host["name"] for host in description["hosts"]]
        self.addresses = [host["address"] for host in description["hosts"]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        pass

    def _connect(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_BYTES_MAX)
        connection.settimeout(REQUEST_TIMEOUT_S)
        try:
            connection.connect(self._address)
        except OSError as error:
            connection.close()
            raise ClusterError(f"the cluster has ended ({error.strerror})") from None
        return connection

    def _ask(self, action, **details):
        with self._connect() as connection:
            connection.send(json.dumps({"do": action, **details}).encode())
            return _receive(connection, REQUEST_TIMEOUT_S)

    def _name(self, host):
        return self.hosts[host] if isinstance(host, int) and host < len(self.hosts) else str(host)

    def describe(self):
        """What is known of the hosts and their links, as a dictionary."""
        return self._ask("describe")[0]

    def start(
        self, argv, host=0, *, environment=None, cwd=None, stdin=None, stdout=None, stderr=None, is_detached=False
    ):
        """Starts a program on a host; streams not given are this process's own.

        Its environment is that of whoever made the cluster, what the cluster adds, and `environment`. If it is detached,
        it goes on when nobody waits for it any more. Raises ClusterError; that a program cannot be run is its exit code,
        126 or 127.
        """
        streams = [
            given if given is not None else own_stream for given, own_stream in ((stdin, 0), (stdout, 1), (stderr, 2))
        ]
        fds = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
        request = {
            "do": "start",
            "host": self._name(host),
            "argv": [str(word) for word in argv],
            "cwd": cwd or os.getcwd(),
            "env": environment or {},
            "is_detached": is_detached,
        }
        connection = self._connect()
        try:
            socket.send_fds(connection, [json.dumps(request).encode()], fds)
            _receive(connection, REQUEST_TIMEOUT_S)
        except BaseException:
            connection.close()
            raise
        return Program(connection)

    def run(self, argv, host=0, *, timeout_s, **options):
        """Runs a program to its end; returns a subprocess.CompletedProcess with its output as text.

        When the time is over the program is killed, with its process group, and ClusterError raised.
        """
        with open(os.memfd_create("stdout"), "w+b") as out, open(os.memfd_create("stderr"), "w+b") as err, open(
            os.devnull, "rb"
        ) as null:
            with self.start(argv, host, stdin=null, stdout=out, stderr=err, **options) as program:
                try:
                    code = program.wait(timeout_s)
                except ClusterError:
                    program.signal(signal.SIGKILL)
                    texts = _texts(out, err)
                    raise ClusterError(
                        f"{' '.join(map(str, argv))}: still runs after {timeout_s} s\n{texts[0]}{texts[1]}"
                    ) from None
            return subprocess.CompletedProcess(argv, code, *_texts(out, err))

    def pids(self, host):
        """The processes of a host, its first one included, as this process's namespace numbers them. Empty if it is
        dead."""
        name = self._name(host)
        if name not in self._inodes:
            try:
                fds = self._ask("pidfd", host=name)[1]
            except ClusterError:
                return []
            with open(f"/proc/self/fdinfo/{fds[0]}", encoding="ascii") as info:
                first = next(int(line.split()[1]) for line in info if line.startswith("Pid:"))
            self._inodes[name] = _process_namespace(first)
            os.close(fds[0])
        wanted = self._inodes[name]
        return [
            int(entry)
            for entry in os.listdir("/proc")
            if entry.isdigit() and wanted and _process_namespace(entry) == wanted
        ]

    def kill_host(self, host, *, is_silent=True):
        """Kills all processes of a host, at once. A host that has lost its power is silent: its peers hear nothing.
        Otherwise its kernel closes the connections of its dead processes, as when only they are killed. Returns when
        all are gone.
        """
        self.pids(host)  # so that they can be asked for afterwards
        self._ask("kill", host=self._name(host), is_silent=is_silent)

    def cut(self, host, how="drop"):
        """Cuts the link of a host: `drop` loses everything silently, `down` also lets the host see it, like a pulled
        cable."""
        if how not in ("drop", "down"):
            raise ClusterError(f"a link is cut by 'drop' or 'down', not '{how}'")
        self._ask("cut", host=self._name(host), how=how)

    def heal(self, host):
        """Undoes cut() of the host and every cut_between() that it is part of."""
        self._ask("heal", host=self._name(host))

    def cut_between(self, host, other, *, is_one_way=False):
        """Nothing gets through from one to the other, and back unless is_one_way; both still reach everybody else."""
        self._reach(host, other, False, is_one_way)

    def heal_between(self, host, other, *, is_one_way=False):
        self._reach(host, other, True, is_one_way)

    def _reach(self, host, other, is_reachable, is_one_way):
        pairs = [(host, other)] if is_one_way else [(host, other), (other, host)]
        for source, target in pairs:
            self._ask("reach", host=self._name(source), to=self._name(target), is_reachable=is_reachable)

    def delay(self, host, delay_ms):
        """Everything that leaves the host arrives this much later; 0 takes it away."""
        self._ask("shape", host=self._name(host), delay_ms=_within(delay_ms, 60000, "a delay in ms"))

    def loss(self, host, loss_percent):
        """So much of what leaves the host is lost; 0 takes it away."""
        self._ask("shape", host=self._name(host), loss_percent=_within(loss_percent, 100, "a loss in percent"))

    def mtu(self, host, packet_bytes):
        """Packets of more bytes are lost on the way from and to the host, and nobody is told: what a network does in which
        somebody has forgotten one card or switch. 0 takes it away."""
        self._ask("shape", host=self._name(host), mtu=int(_within(packet_bytes, 65535, "a number of bytes")))

    def rate(self, host, rate_mbit):
        """Limits what the host sends, and what it receives, to this rate each; 0 takes it away."""
        self._ask("rate", host=self._name(host), rate_mbit=_within(rate_mbit, 100000, "a rate in Mbit/s"))


class Cluster(Hosts):
    """Makes a cluster, and ends it when it is closed."""

    def __init__(self, hosts=4, slots=1, *, name=None, delay_ms=0, rate_mbit=0, loss_percent=0):
        if not 1 <= hosts <= HOSTS_MAX or slots < 1:
            raise ClusterError(
                f"a cluster has 1 to {HOSTS_MAX} hosts with at least 1 slot each, not {hosts} with {slots}"
            )
        if os.geteuid() != 0:
            raise Unavailable("making hosts needs root: run it as root or with sudo")
        for tool in ("ip", "bridge", "tc"):
            if not shutil.which(tool):
                raise Unavailable(f"making hosts needs '{tool}', which is not in PATH: install iproute2")
        name = name or f"c{uuid.uuid4().hex[:8]}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.bind(SOCKET_PREFIX + name)
        except OSError:
            listener.close()
            raise ClusterError(f"there is a cluster '{name}' already") from None
        with listener:
            listener.listen(64)
            self._lifeline, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with other_end:
                fds = [other_end.fileno(), listener.fileno()]
                self._guardian = subprocess.Popen(
                    [sys.executable, "-B", HUB, *map(str, fds)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    pass_fds=fds,
                )
        try:
            with self._guardian.stdin as file:
                file.write(json.dumps({"name": name, "hosts": hosts, "slots": slots, "env": dict(os.environ)}).encode())
            self._await_start()
            super().__init__(SOCKET_PREFIX + name)
            for host in self.hosts:
                if rate_mbit:
                    self.rate(host, rate_mbit)
                if delay_ms:
                    self.delay(host, delay_ms)
                if loss_percent:
                    self.loss(host, loss_percent)
        except BaseException:
            self.close()
            raise

    def _await_start(self):
        if not select.select([self._lifeline], [], [], START_TIMEOUT_S)[0]:
            raise ClusterError(f"the cluster has not come up within {START_TIMEOUT_S} s")
        data = self._lifeline.recv(MESSAGE_BYTES_MAX)
        if not data:
            raise ClusterError("the processes of the cluster have ended at once")
        message = json.loads(data)
        if "error" in message:
            raise (Unavailable if message.get("is_forbidden") else ClusterError)(message["error"])

    @staticmethod
    def named(name):
        """The cluster of that name that somebody on this machine has made."""
        return Hosts(SOCKET_PREFIX + name)

    @staticmethod
    def within():
        """The cluster that this process runs in."""
        address = os.environ.get("CLUSTER_SOCKET", "/run/cluster/hub")
        if not os.path.exists(address):
            raise ClusterError("this is not a host of a cluster")
        return Hosts(address)

    @staticmethod
    def names():
        """All clusters of this machine that run now."""
        with open("/proc/net/unix", encoding="ascii", errors="replace") as file:
            words = {line.split()[-1] for line in file}
        prefix = SOCKET_PREFIX.replace("\0", "@")
        return sorted(word[len(prefix) :] for word in words if word.startswith(prefix))

    @property
    def guardian_pid(self):
        return self._guardian.pid

    def fileno(self):
        """Readable when the cluster has ended unasked, for `select`."""
        return self._lifeline.fileno()

    def close(self):
        """Returns when every process of the cluster is gone."""
        self._lifeline.close()
        try:
            self._guardian.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait()
            raise ClusterError(f"the cluster's processes have not ended within {CLOSE_TIMEOUT_S} s") from None


def _within(value, most, what):
    if not 0 <= value <= most:
        raise ClusterError(f"{what} is a number from 0 to {most}, not {value}")
    return float(value)


def _texts(*files):
    texts = []
    for file in files:
        file.seek(0)
        texts.append(file.read().decode(errors="replace"))
    return texts


def _process_namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""
