"""Runs oshrun for a test and tells what it left behind.

Every process that a test starts carries a token in its environment, by which it is found again whoever its parent is
then; temporary files go to a folder of the test's own.
"""

import os
import signal
import subprocess
import tempfile
import time
import uuid

TIMEOUT_S = 40
OSHRUN = os.environ.get("OSHRUN", "oshrun")
FAKE_PE = os.environ.get("FAKE_PE", "fake_pe")
# What every job is started by that does not choose for itself; empty: oshrun chooses.
LAUNCHER = os.environ.get("JOB_LAUNCHER", "")

# A PE that does everything right, after a moment.
GOOD = "*:hello,init,sleep=0.1,finalize,exit=0"

# A shell that runs tests in the background lets them ignore some signals, and oshrun leaves alone what it finds ignored.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def parent_of(pid):
    """0 when there is no such process; zombies count as gone."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 and fields[0] not in (b"Z", b"X") else 0


def name_of(pid):
    return _read(f"/proc/{pid}/comm").decode(errors="replace").strip()


def eventually(condition, timeout_s=TIMEOUT_S):
    """Waits until condition() is true; returns its value."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.01)


class Result:
    def __init__(self, exit_code, stdout, stderr):
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr
        self.lines = stderr.decode(errors="replace").splitlines()


class JobProcess:
    """One oshrun. Use as a context manager: at the end nothing of it is alive."""

    def __init__(self, *arguments, env=None, program=None, stdin=subprocess.DEVNULL, **options):
        self.folder = tempfile.TemporaryDirectory(prefix="oshrun-test-")
        self.token = uuid.uuid4().hex
        self.temp_dir = os.path.join(self.folder.name, "tmp")
        os.mkdir(self.temp_dir)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SHMEM_", "SMA_", "OMPI_", "PMIX_"))}
        environment.update({"TMPDIR": self.temp_dir, "OSHRUN_TEST_TOKEN": self.token})
        environment.update(env or {})
        self._stdout = tempfile.TemporaryFile()
        self._stderr = tempfile.TemporaryFile()
        options.setdefault("stdout", self._stdout)
        options.setdefault("stderr", self._stderr)
        if LAUNCHER and program is None and not {"--launcher", "-L", "--join", "--exec-pe"} & set(arguments):
            arguments = ("--launcher", LAUNCHER, *arguments)
        self.process = subprocess.Popen([program or OSHRUN, *arguments], env=environment, stdin=stdin, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.alive():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self._stdout.close()
        self._stderr.close()
        self.folder.cleanup()

    def wait(self, timeout_s=TIMEOUT_S):
        self.process.wait(timeout_s)
        return self.result()

    def result(self):
        texts = []
        for file in (self._stdout, self._stderr):
            file.seek(0)
            texts.append(file.read())
        return Result(self.process.returncode, *texts)

    def stdout_so_far(self):
        return os.pread(self._stdout.fileno(), 1 << 20, 0)

    def alive(self):
        """All processes that descend from this oshrun, whoever their parent is now."""
        mark = b"OSHRUN_TEST_TOKEN=" + self.token.encode()
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and mark in _read(f"/proc/{entry}/environ").split(b"\0") and parent_of(int(entry)):
                found.append(int(entry))
        return found

    def guardian(self):
        return next((pid for pid in self.alive() if parent_of(pid) == self.process.pid and name_of(pid) == "oshrun"), 0)

    def launcher(self):
        guardian = self.guardian()
        return next((pid for pid in self.alive() if parent_of(pid) == guardian and "mpirun" in name_of(pid)), 0)

    def pes(self):
        parents = [pid for pid in (self.launcher(), self.guardian()) if pid]
        return [pid for pid in self.alive() if parent_of(pid) in parents and name_of(pid) == os.path.basename(FAKE_PE)[:15]]

    def await_output(self, text, count=1):
        assert eventually(lambda: self.stdout_so_far().count(text) >= count), f"{text} not in {self.stdout_so_far()}"

    def leftovers(self, timeout_s=5):
        """Texts for what is still there after a moment; empty is right."""
        def look():
            processes = [f"process {pid} ({name_of(pid)})" for pid in self.alive()]
            files = [os.path.join(where, name) for where, folders, names in os.walk(self.temp_dir) for name in names + folders]
            shared = [name for name in os.listdir("/dev/shm") if "shmem" in name or "oshrun" in name]
            return processes + files + shared
        eventually(lambda: not look(), timeout_s)
        return look()


def run(*arguments, **options):
    """A job to its end; asserts that nothing is left of it."""
    with JobProcess(*arguments, **options) as job:
        result = job.wait()
        left = job.leftovers()
        assert not left, left
        return result
