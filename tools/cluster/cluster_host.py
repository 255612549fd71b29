"""One host: what its first process does, and how programs are started in it.

A host has its own network, hostname, process numbers, System V objects, /dev/shm, /run, /etc/hosts and /proc; the file
system is shared otherwise, as on a machine room's network disk. Its first process does nothing but bury the dead; when
it is killed, the kernel kills all others of the host with it, at once, and everything that was the host's own is gone.
"""

import contextlib
import os
import signal
import sys

import cluster_kernel as kernel

HOSTS_FOLDER = "/run/cluster"  # in a host: the hub's socket, the launch agent and the list of hosts
TEMP_FOLDER = "/run/tmp"


def _private_files(hosts_text):
    shared = os.open(HOSTS_FOLDER, os.O_PATH | os.O_DIRECTORY)
    kernel.mount("proc", "/proc", "proc")
    kernel.mount("tmpfs", "/run", "tmpfs", options="mode=755")
    os.mkdir(HOSTS_FOLDER)
    kernel.mount(f"/proc/self/fd/{shared}", HOSTS_FOLDER, flags=kernel.MS_BIND)
    os.close(shared)
    os.mkdir(TEMP_FOLDER)
    os.chmod(TEMP_FOLDER, 0o1777)
    kernel.mount("tmpfs", "/dev/shm", "tmpfs", options="mode=1777")
    with open("/run/hosts", "w", encoding="ascii") as file:
        file.write(hosts_text)
    kernel.mount("/run/hosts", "/etc/hosts", flags=kernel.MS_BIND)
    # /sys shows the network of whoever mounted it, and UCX looks for its devices there. What else is mounted in it
    # stays.
    has_groups = os.path.isdir("/sys/fs/cgroup")
    if has_groups:
        os.mkdir("/run/cgroup")
        kernel.mount("/sys/fs/cgroup", "/run/cgroup", flags=kernel.MS_BIND | kernel.MS_REC)
    kernel.mount("sysfs", "/sys", "sysfs")
    if has_groups:
        kernel.mount("/run/cgroup", "/sys/fs/cgroup", flags=kernel.MS_MOVE)
        os.rmdir("/run/cgroup")


def _no_ipv6():
    """Addresses that a card gives itself would be a second way between hosts, which nothing here cuts."""
    for where in ("all", "default"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/sys/net/ipv6/conf/{where}/disable_ipv6", "w") as file:
            file.write("1")


def _bury_the_dead():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        signal.sigwait([signal.SIGCHLD])


def _first_process(name, hosts_text, ready):
    kernel.set_process_name(name)
    kernel.sethostname(name)
    _private_files(hosts_text)
    _no_ipv6()
    os.write(ready, b"1")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.closerange(3, 1 << 16)
    _bury_the_dead()


def start_host(name, hosts_text):
    """Forks the first process of a host. Returns a pidfd of it. The caller has no threads, and cleans up if this
    fails."""
    numbers, report = os.pipe()
    ready, is_ready = os.pipe()
    middle = os.fork()
    if middle == 0:
        try:
            kernel.unshare(kernel.ALL_OF_A_HOST)
            first = os.fork()
            if first == 0:
                _first_process(name, hosts_text, is_ready)
            os.write(report, str(first).encode())
        except Exception as error:  # whatever it is, this copy of the hub must not go on
            print(f"cluster: error: cannot make {name}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(0)
    os.close(report)
    os.close(is_ready)
    try:
        number = os.read(numbers, 20)
        os.waitpid(middle, 0)
        if not number or os.read(ready, 1) != b"1":
            raise OSError(f"{name} could not be made")
        return os.pidfd_open(int(number))
    finally:
        os.close(numbers)
        os.close(ready)


class Spawned:
    """A program in a host. `helper` is the hub's child that ends when the program does, and with its exit code."""

    def __init__(self, helper, pid):
        self.helper = helper
        self.is_detached = False  # it goes on when nobody waits for it any more
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._pidfd = -1
        self._pid = pid

    def signal(self, number):
        """To the program and whoever is in its process group, if it has not ended."""
        if self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, 0)
                os.killpg(self._pid, number)
            except ProcessLookupError:
                pass

    def close(self):
        if self._pidfd >= 0:
            os.close(self._pidfd)


def _become(request, fds, name):
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
    os.closerange(3, 1 << 16)  # this is what the hub waits for: from now on signals do what they should
    culprit = request["cwd"]
    try:
        os.chdir(culprit)
        culprit = request["argv"][0]
        os.execvpe(culprit, request["argv"], request["env"])
    except OSError as error:
        print(f"cluster: error: {name}: {culprit}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def spawn(entry_fd, name, request, fds):
    """Starts request's argv with env in cwd, with fds as standard streams. Raises OSError if the host is dead."""
    numbers, report = os.pipe()
    helper = os.fork()
    if helper == 0:
        code = 125
        try:
            kernel.setns(entry_fd, kernel.ALL_OF_A_HOST)
            pid = os.fork()
            if pid == 0:
                _become(request, fds, name)
            os.write(report, str(pid).encode())
            os.closerange(0, 1 << 16)  # the streams are the program's alone: who reads them sees their end when it ends
            status = os.waitpid(pid, 0)[1]
            code = os.waitstatus_to_exitcode(status)
        finally:
            os._exit(code if code >= 0 else 128 - code)
    os.close(report)
    with open(numbers, "rb") as file:
        number = file.read()
    if not number:
        os.waitpid(helper, 0)
        raise OSError(f"nothing can be started on {name}")
    return Spawned(helper, int(number))
