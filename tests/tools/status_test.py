"""`shmem-ft status` on real jobs: the numbers before, during and after a recovery, and what is no job."""

import fcntl
import json
import os
import re
import signal
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import job_process
from job_process import JobProcess, eventually

TOOL = os.path.join(os.environ["SFT_BUILD_DIR"], "bin", "shmem-ft")
JACOBI = os.environ["JACOBI1D"]
PROTECTED = os.environ["STATUS_PROTECTED"]
MAGIC = 0x53465443
with open(os.path.join(os.environ["SFT_SOURCE_DIR"], "transport/shm/control.hpp"), encoding="utf-8") as control:
    LAYOUT = int(re.search(r"kControlLayout = (\d+);", control.read())[1])
LINE = (
    "shmem-ft: '{}' is no running job of this user on this node: give a pid of its processes or of its oshrun, or the "
    "name of its program\n"
)


def run_tool(*words, **options):
    return subprocess.run(
        [TOOL, "status", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def jobs_of(*words):
    """What --json says; no job is an empty list."""
    return json.loads(run_tool("--json", *words).stdout)["jobs"]


def await_job(job, condition):
    """The job's status once it fulfils the condition."""
    seen = []

    def look():
        found = jobs_of(job.process.pid)
        seen[:] = found
        return found and condition(found[0]) and found[0]

    status = eventually(look)
    assert status, (seen, job.result().stderr)
    return status


ESCAPES = b"\x1b]0;owned\x07\x1b[2J\xc2\x9b31m\xff\xe2\x80\xae"
# Makes a segment like that one as another user, and becomes root with it, as who starts a program like su does.
STRANGER = """
import fcntl, os, struct, sys
size, length = struct.unpack("=QQ", sys.stdin.buffer.read(16))
data = sys.stdin.buffer.read(length)
os.seteuid(65534)
file = os.memfd_create("shmem-ft-control", os.MFD_ALLOW_SEALING)
os.truncate(file, size); os.pwrite(file, data, 0)
fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
os.seteuid(0)
os.setresuid(int(sys.argv[1]), 0, 0)
print("ready", flush=True); sys.stdin.buffer.read(1)
"""


def segment_of(status):
    """Where the control segment of a job can be opened."""
    pid = next(pe["pid"] for pe in status["pes"] if pe["pid"])
    for fd in os.listdir(f"/proc/{pid}/fd"):
        if "shmem-ft-control" in os.readlink(f"/proc/{pid}/fd/{fd}"):
            return f"/proc/{pid}/fd/{fd}"
    raise AssertionError("the process has no control segment")


def read_sparse(path):
    """What is written at the beginning, where everything lies that status looks at; and the size."""
    with open(path, "rb") as file:
        return file.read(1 << 20), os.fstat(file.fileno()).st_size


class Copy:
    """A control segment in this process like that one, but for what `change` does to its beginning."""

    def __init__(self, path, change):
        data, size = read_sparse(path)
        self.file = os.memfd_create("shmem-ft-control", os.MFD_ALLOW_SEALING)
        os.truncate(self.file, size)
        os.pwrite(self.file, change(data), 0)
        fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.file)


def jacobi(*options, pes=3, spares=2, steps=100000, **more):
    arguments = ["--cells", "30000", "--steps", str(steps), "--halo", "16", "--pace", "20"]
    return JobProcess("-n", str(pes), "--spares", str(spares), *options, JACOBI, *arguments, **more)


class RunningJob(unittest.TestCase):
    def test_the_numbers(self):
        with jacobi() as job:
            status = await_job(job, lambda it: it["version"] > 2 and it["stage"] == "running")
            self.assertEqual(status["job"], job.process.pid)
            self.assertEqual(status["oshrun_pid"], job.process.pid)
            self.assertEqual(status["program"], os.path.realpath(JACOBI))
            self.assertEqual((status["n_pes"], status["n_spares"], status["view"]), (3, 2, 0))
            self.assertEqual(status["protected_losses"], 2)
            self.assertEqual(status["limits"], ["the node has the copies of every PE, whoever dies"])
            self.assertLess(status["committed_seconds_ago"], 30)
            self.assertGreater(status["stored_bytes"], 2 * 8 * 30000)
            self.assertEqual([pe["copy_in_process"] for pe in status["pes"]], [1, 2, 0])
            self.assertEqual({pe["state"] for pe in status["pes"]}, {"protected"})
            self.assertEqual({pe["startup"] for pe in status["pes"]}, {"recorded"})
            self.assertGreater(min(pe["startup_bytes"] for pe in status["pes"]), 0)
            self.assertEqual([pe["incarnation"] for pe in status["pes"]], [0, 0, 0])
            self.assertEqual([spare["process"] for spare in status["idle_spares"]], [3, 4])
            self.assertEqual(status["deaths"], [])
            shown = {pe["pid"] for pe in status["pes"]} | {spare["pid"] for spare in status["idle_spares"]}
            self.assertEqual(shown, {pid for pid in job.alive() if job_process.name_of(pid) == os.path.basename(JACOBI)})
            later = await_job(job, lambda it: it["version"] > status["version"])
            self.assertEqual([pe["pid"] for pe in later["pes"]], [pe["pid"] for pe in status["pes"]])

    def test_the_start_up_and_its_repetition(self):
        faults = ("delay 3000 pe 1 at startup_call; kill pe 1 at checkpoint_leave visit 3; "
                  "delay 3000 substitute at replay_call")
        with jacobi(env={"SHMEM_FT_FAULTS": faults}) as job:
            first = await_job(job, lambda it: len(it["pes"]) == 3 and {pe["startup"] for pe in it["pes"]} == {"being recorded"})
            self.assertEqual(first["version"], 0)
            during = await_job(job, lambda it: it["pes"][1]["startup"] == "being repeated")
            self.assertEqual([pe["startup"] for pe in during["pes"]], ["recorded", "being repeated", "recorded"])
            self.assertGreater(during["pes"][1]["startup_bytes"], 0)
            after = await_job(job, lambda it: it["view"] == 1 and it["stage"] == "running" and it["version"] > during["version"])
            self.assertEqual({pe["startup"] for pe in after["pes"]}, {"recorded"})
            self.assertGreater(min(pe["startup_bytes"] for pe in after["pes"]), 0)

    def test_a_kill_and_the_recovery(self):
        with jacobi() as job:
            before = await_job(job, lambda it: it["version"] > 1)
            os.kill(before["pes"][1]["pid"], signal.SIGKILL)
            after = await_job(job, lambda it: it["view"] == 1 and it["version"] > before["version"] + 2)
            self.assertEqual(after["pes"][1]["pid"], before["idle_spares"][0]["pid"])
            self.assertEqual(after["pes"][1]["incarnation"], 1)
            self.assertEqual([pe["copy_in_process"] for pe in after["pes"]], [3, 2, 0])
            self.assertEqual([spare["process"] for spare in after["idle_spares"]], [4])
            self.assertEqual(after["protected_losses"], 1)
            self.assertEqual(after["limits"], ["the node has the copies of every PE, whoever dies", "one spare is left"])
            (death,) = after["deaths"]
            self.assertEqual((death["process"], death["pe"], death["pid"]), (1, 1, before["pes"][1]["pid"]))
            self.assertIn("signal 9", death["reason"])

            os.kill(after["pes"][1]["pid"], signal.SIGKILL)
            last = await_job(job, lambda it: it["view"] == 2 and it["stage"] == "running")
            self.assertEqual((last["protected_losses"], last["limits"]), (0, ["no spare is left"]))
            self.assertEqual((last["idle_spares"], last["pes"][1]["incarnation"]), ([], 2))
            self.assertEqual([death["process"] for death in last["deaths"]], [1, 3])

    def test_a_pe_that_nobody_replaces(self):
        # The restart waits, so there is time to look at the job while it is hurt.
        waiting = {"SHMEM_FT_UNREPLACED": "wait", "SHMEM_FT_WAIT_TIMEOUT": "300"}
        with jacobi("--on-demand", "never", spares=0, env=waiting) as job:
            before = await_job(job, lambda it: it["version"] > 1)
            self.assertEqual((before["protected_losses"], before["limits"]), (0, ["no spare is left"]))
            os.kill(before["pes"][1]["pid"], signal.SIGKILL)
            hurt = await_job(job, lambda it: it["waits_for_spare"])
            self.assertEqual(hurt["stage"], "fault")
            self.assertEqual([pe["state"] for pe in hurt["pes"]], ["protected", "failed", "protected"])
            self.assertEqual(hurt["protected_losses"], 0)
            self.assertEqual(hurt["limits"], ["PE 1 has failed and is not replaced yet", "no spare is left"])
            text = run_tool(job.process.pid).stdout
            self.assertRegex(text, r"stage +fault \(waits for a spare\), view 0\n")
            self.assertRegex(text, r"\n +0 +\d+ +0 +0 +\d+ +protected +")  # the node has its copy, whoever dies

    def test_a_spare_that_has_come_later(self):
        with jacobi("--on-demand", "always", spares=0) as job:
            before = await_job(job, lambda it: it["version"] > 1)
            self.assertEqual(before["n_spares"], 0)
            os.kill(before["pes"][1]["pid"], signal.SIGKILL)
            after = await_job(job, lambda it: it["view"] == 1 and it["version"] > before["version"] + 2)
            self.assertEqual([pe["process"] for pe in after["pes"]], [0, 3, 2])
            self.assertEqual({pe["state"] for pe in after["pes"]}, {"protected"})
            self.assertEqual(after["n_spares"], 1)

    def test_several_nodes(self):
        def await_nodes(job, condition):
            def look():
                found = sorted(jobs_of(job.process.pid), key=lambda it: it["node"] or "")
                return len(found) == 2 and all(map(condition, found)) and found

            found = eventually(look)
            self.assertTrue(found, job.result().stderr)
            return found

        def known(nodes):
            """What the nodes tell of the PEs that are there, and which those are on each."""
            here = [{pe["pe"]: pe for pe in node["pes"] if pe["state"] != "elsewhere"} for node in nodes]
            return [sorted(some) for some in here], [{**here[0], **here[1]}[pe] for pe in range(4)]

        with jacobi(pes=4, env={"SHMEM_FT_PRETEND_NODES": "2"}) as job:
            nodes = await_nodes(job, lambda it: it["version"] > 1)
            self.assertEqual([(node["node"], node["n_nodes"]) for node in nodes],
                             [("pretended node 0", 2), ("pretended node 1", 2)])
            where, pes = known(nodes)
            self.assertEqual(where, [[0, 2], [1, 3]])
            self.assertEqual({pe["state"] for pe in pes}, {"protected"})
            self.assertEqual([pe["copy_on_node"] for pe in pes],
                             ["pretended node 1", "pretended node 0", "pretended node 1", "pretended node 0"])
            for node in nodes:
                self.assertFalse([line for line in node["limits"] if "failed" in line], node["limits"])
            text = run_tool(job.process.pid).stdout
            self.assertRegex(text, r"\n  node        pretended node 0, one of 2\n")
            self.assertRegex(text, r"\n +0 +\d+ +0 +0 +\d+  protected  process 1 on pretended node 1\n")
            self.assertIn("\n  2 PEs on other nodes: shmem-ft status there tells of them\n", text)

            os.kill(pes[1]["pid"], signal.SIGKILL)
            after = await_nodes(job, lambda it: it["view"] == 1 and it["version"] > nodes[0]["version"] + 2)
            where, pes = known(after)
            self.assertEqual(where, [[0, 2], [1, 3]])
            self.assertEqual({pe["state"] for pe in pes}, {"protected"})
            self.assertEqual(pes[1]["process"], 5)  # the first spare is on node 0, this one where the PE was
            self.assertEqual([death["pe"] for death in after[1]["deaths"]], [1])

    def test_the_loss_of_a_node(self):
        def node_losses(**more):
            with jacobi(**more) as job:
                status = await_job(job, lambda it: it["version"] > 0 and it["stage"] == "running")
                return status["node_losses"], run_tool(job.process.pid).stdout

        three = {"SHMEM_FT_PRETEND_NODES": "3"}
        losses, text = node_losses(pes=6, spares=3, env=three)
        self.assertEqual(losses, {"nodes": 3, "survivable": 3, "fatal_node": None, "why": None})
        self.assertIn("\n              the loss of any one of 3 nodes, oshrun's host excepted\n", text)
        # A process may be lost there, but no node.
        losses, text = node_losses(pes=6, spares=3, env={**three, "SHMEM_FT_BACKUP_MODE": "single"})
        self.assertEqual((losses["survivable"], losses["fatal_node"]), (0, "pretended node 0"))
        self.assertIn("  survivable  2 further losses of a PE at one moment, 3 one after another: ", text)
        self.assertIn("\n              the loss of none of 3 nodes: not of pretended node 0, copies are kept on the node of "
                      "their PE (SHMEM_FT_BACKUP_MODE=single)\n", text)
        losses, _ = node_losses(pes=6, spares=2, env=three)  # on nodes 0 and 1
        self.assertEqual((losses["survivable"], losses["fatal_node"]), (1, "pretended node 0"))
        self.assertRegex(losses["why"], "^more PEs would have to be replaced")

    def test_spares_on_demand(self):
        with jacobi("--on-demand", "always", "--on-demand-limit", "2", pes=6, spares=0, env={"SHMEM_FT_PRETEND_NODES": "3"}) as job:
            before = await_job(job, lambda it: it["version"] > 1)
            self.assertEqual((before["spares_on_demand"], before["node_losses"]["survivable"]), (2, 3))
            self.assertEqual(before["limits"], ["no spare is left, but oshrun starts one when it is needed"])
            self.assertIn("\n  on demand   oshrun starts up to 2 spares when none is left", run_tool(job.process.pid).stdout)
            os.kill(before["pes"][0]["pid"], signal.SIGKILL)
            after = await_job(job, lambda it: it["view"] == 1 and it["stage"] == "running")
            self.assertEqual((after["spares_on_demand"], after["node_losses"]["survivable"]), (1, 0))
        # The default: the job would not wait for one.
        with jacobi(pes=2, spares=0) as job:
            self.assertEqual(await_job(job, lambda it: it["version"] > 0)["spares_on_demand"], 0)

    def test_text(self):
        with jacobi(pes=2, spares=1, env={"SHMEM_FT_SCRUB": "1"}) as job:
            await_job(job, lambda it: it["version"] > 2 and it["integrity"]["blocks_checked"] > 0)
            text = run_tool(job.process.pid).stdout
            self.assertRegex(text, rf"^job {job.process.pid}: jacobi1d, 2 PEs, 1 spare, oshrun {job.process.pid}\n")
            self.assertRegex(text, r"\n  committed   version \d+, \d+\.\d s ago, [\d.]+ KiB stored\n")
            self.assertRegex(text, r"\n  survivable  1 further loss of a PE at one moment, 1 one after another: the node has the copies of every PE, whoever dies; one spare")
            self.assertRegex(text, r"\n  integrity   [1-9]\d* blocks checked, 0 bad, 0 repaired\n")
            self.assertRegex(text, r"\n +1 +\d+ +1 +0 +\d+  protected  process 0 \(PE 0\)\n  spare: process 2, pid \d+\n$")

    def test_several_jobs_and_ways_to_name_them(self):
        with jacobi(pes=2, spares=0) as one, jacobi("--launcher", "mpirun", pes=1, spares=1) as two:
            statuses = [await_job(job, lambda it: it["version"] > 0) for job in (one, two)]
            pids = [job.process.pid for job in (one, two)]
            self.assertEqual({job["job"] for job in jobs_of(*pids)}, set(pids))
            self.assertLessEqual(set(pids), {job["job"] for job in jobs_of()})
            self.assertLessEqual(set(pids), {job["job"] for job in jobs_of("jacobi1d")})
            for word in (statuses[1]["pes"][0]["pid"], two.guardian(), two.launcher()):
                self.assertEqual([job["job"] for job in jobs_of(word)], [pids[1]])
            result = run_tool("--json", pids[0], "no-such-program")
            self.assertEqual((result.returncode, result.stderr), (0, LINE.format("no-such-program")))

    def test_watching_ends_with_the_job(self):
        # The job goes on until enough of it has been seen, so it does not matter how slow the machine is.
        with jacobi() as job:
            await_job(job, lambda it: it["version"] > 0)
            command = [TOOL, "status", "--json", "--watch", "0.1", str(job.process.pid)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watcher:
                versions = []
                for line in watcher.stdout:
                    versions.append(json.loads(line)["jobs"][0]["version"])
                    if len(versions) > 3 and versions[-1] > versions[0]:
                        break
                self.assertEqual(versions, sorted(versions))
                self.assertGreater(len(versions), 3)
                job.process.terminate()
                _, stderr = watcher.communicate(timeout=job_process.TIMEOUT_S)
            self.assertEqual((watcher.returncode, stderr), (0, ""))
            self.assertEqual(job.wait().exit_code, 128 + signal.SIGTERM)

    def test_a_job_that_ends_while_it_is_read(self):
        with jacobi() as job:
            await_job(job, lambda it: it["version"] > 0)
            job.process.terminate()
            while True:
                result = run_tool("--json", job.process.pid)
                json.loads(result.stdout)
                if result.returncode != 0:
                    break
                self.assertEqual(result.stderr, "")
            self.assertEqual((result.returncode, result.stderr), (1, LINE.format(job.process.pid)))
            self.assertEqual(job.wait().exit_code, 128 + signal.SIGTERM)


class SameAsTheLibrary(unittest.TestCase):
    """shmem_ft_protected() of every PE is what is shown."""

    def setUp(self):
        self.seen = []

    def phase(self, job, number, n_lines, expected):
        pattern = re.compile(rf"^PE \d+ phase {number} protected (\d+)$", re.M)
        eventually(lambda: len(pattern.findall(job.stdout_so_far().decode())) >= n_lines)
        returned = pattern.findall(job.stdout_so_far().decode())
        self.assertEqual(returned, [str(expected)] * n_lines, job.result().stderr)
        (status,) = jobs_of(job.process.pid)
        self.assertEqual(status["protected_losses"], expected)
        return status

    def let_go(self, job, number):
        with open(os.path.join(job.folder.name, str(number)), "w", encoding="utf-8"):
            pass

    def test_in_every_phase(self):
        with JobProcess("-n", "2", "--spares", "1", "sh", "-c", f'exec {PROTECTED} "$TMPDIR/.."') as job:
            before = self.phase(job, 0, 2, 0)
            self.assertEqual(before["limits"], ["nothing is committed yet"])
            self.assertIsNone(before["committed_seconds_ago"])
            self.assertEqual({pe["state"] for pe in before["pes"]}, {"none"})
            self.let_go(job, 0)
            committed = self.phase(job, 1, 2, 1)
            self.assertEqual(committed["version"], 1)
            os.kill(committed["pes"][0]["pid"], signal.SIGKILL)
            self.let_go(job, 1)
            without_spare = self.phase(job, 2, 2, 0)
            self.assertEqual(without_spare["limits"], ["no spare is left"])
            self.let_go(job, 2)
            self.let_go(job, 3)
            self.assertEqual(job.wait().exit_code, 0)

    def test_scrubbing_while_nothing_is_decided(self):
        env = {"SHMEM_FT_SCRUB": "1", "SHMEM_FT_HANG_TIMEOUT": "5000"}
        with JobProcess("-n", "2", "sh", "-c", f'exec {PROTECTED} "$TMPDIR/.."', env=env) as job:
            self.let_go(job, 0)
            before = self.phase(job, 1, 2, 0)["integrity"]["blocks_checked"]
            await_job(job, lambda it: it["integrity"]["blocks_checked"] > before + 10)

    def test_the_death_of_a_spare(self):
        with JobProcess("-n", "2", "--spares", "1", "sh", "-c", f'exec {PROTECTED} "$TMPDIR/.."') as job:
            self.let_go(job, 0)
            status = self.phase(job, 1, 2, 1)
            os.kill(status["idle_spares"][0]["pid"], signal.SIGKILL)
            await_job(job, lambda it: it["protected_losses"] == 0 and it["limits"] == ["no spare is left"])
            self.let_go(job, 1)
            self.phase(job, 2, 2, 0)
            self.let_go(job, 2)
            self.let_go(job, 3)
            self.assertEqual(job.wait().exit_code, 0)


class NoJob(unittest.TestCase):
    def test_what_is_asked_for_does_not_run(self):
        result = run_tool(os.getpid())
        self.assertEqual((result.returncode, result.stdout, result.stderr), (1, "", LINE.format(os.getpid())))
        result = run_tool("--json", "no-such-program")
        self.assertEqual((result.returncode, json.loads(result.stdout)), (1, {"jobs": []}))

    @unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
    def test_a_user_without_jobs(self):
        with jacobi(pes=1, spares=0) as job:
            await_job(job, lambda it: it["version"] > 0)
            result = run_tool(user=65534)
            line = "shmem-ft: no running job of this user on this node\n"
            self.assertEqual((result.returncode, result.stdout, result.stderr), (1, "", line))

    def file_says(self, content, expected, seals=fcntl.F_SEAL_SHRINK):
        file = os.memfd_create("shmem-ft-control", os.MFD_ALLOW_SEALING)
        try:
            os.write(file, content)
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
            result = run_tool(os.getpid())
            line = f"shmem-ft: the memory file 'shmem-ft-control' of process {os.getpid()} {expected}\n"
            self.assertEqual((result.returncode, result.stdout, result.stderr), (1, "", line))
        finally:
            os.close(file)

    def test_files_of_somebody_else_with_that_name(self):
        self.file_says(b"", "is no control segment of a job")
        self.file_says(b"short", "is no control segment of a job")
        self.file_says(b"\xa5" * 100000, "is no control segment of a job")
        # Whoever can shorten it ends its reader by SIGBUS.
        header = struct.pack("=IIii", MAGIC, LAYOUT, 1, 1).ljust(65536, b"\0")
        self.file_says(header, "is no control segment of a job", seals=0)
        header = struct.pack("=IIii", MAGIC, 99, 4, 6).ljust(65536, b"\0")
        self.file_says(header, "belongs to another version of shmem-ft")
        for n_pes, n_processes in ((4, 6), (-1, 6), (2**31 - 1, 2**31 - 1), (6, 4), (0, 0)):
            header = struct.pack("=IIii", MAGIC, LAYOUT, n_pes, n_processes).ljust(65536, b"\0")
            self.file_says(header, "is damaged, or belongs to another version of shmem-ft")

    def test_a_hostile_copy_of_a_segment(self):
        """What is there was taken at its word: names without an end, terminal escapes, any number of nodes."""
        with jacobi(pes=2, spares=0, env={"SHMEM_FT_PRETEND_NODES": "2"}) as job:
            self.assertTrue(eventually(lambda: len(jobs_of(job.process.pid)) == 2))
            source = segment_of(await_job(job, lambda it: it["version"] > 0 and any(pe["pid"] for pe in it["pes"])))
            evil = ESCAPES.ljust(64, b"X")
            with Copy(source, lambda data: re.sub(rb"pretended node \d.{48}", lambda _: evil, data, flags=re.S)):
                text = run_tool().stdout
                self.assertIn("?]0;owned?", text)
                self.assertNotRegex(text, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")
                self.assertIn("X" * 20, run_tool("--json").stdout)
                self.assertNotRegex(run_tool("--json").stdout, "[^\n\x20-\x7e]")
            for n_nodes in (2**31 - 1, -2, 5000):
                with Copy(source, lambda data, n=n_nodes: data[:20] + struct.pack("=i", n) + data[24:]):
                    self.assertIn(f"of process {os.getpid()} is damaged, or belongs", run_tool().stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
    def test_a_segment_of_somebody_else(self):
        """Root was shown what others had given to a program that runs as root."""
        with jacobi(pes=1, spares=0) as job:
            status = await_job(job, lambda it: it["version"] > 0)
            source = segment_of(status)
            data, size = read_sparse(source)
            for user in ("65534", "0"):
                with subprocess.Popen([sys.executable, "-c", STRANGER, user], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE) as stranger:
                    stranger.stdin.write(struct.pack("=QQ", size, len(data)) + data)
                    stranger.stdin.flush()
                    self.assertEqual(stranger.stdout.readline(), b"ready\n")
                    mine = status["pes"][0]["pid"]
                    self.assertEqual([found["job"] for found in jobs_of(mine)], [job.process.pid])
                    # Asked for it is looked at, and says that its processes are those of root's job: they are not its own.
                    everybodys = json.loads(run_tool("--json", "--all-users", mine).stdout)["jobs"]
                    self.assertEqual([found["job"] for found in everybodys], [job.process.pid])
                    stranger.stdin.write(b"x")

    @unittest.skipUnless(os.geteuid() == 0, "only root can be somebody else")
    def test_jobs_of_others_when_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            program = shutil.copy(JACOBI, folder)
            shutil.copy(os.path.join(os.environ["SFT_BUILD_DIR"], "libshmem_ft.so.0"), folder)
            environment = {"PATH": os.environ["PATH"], "TMPDIR": folder, "HOME": folder, "LD_LIBRARY_PATH": folder}
            command = [os.environ["OSHRUN"], "-n", "1", program, "--cells", "3000", "--steps", "100000", "--pace", "20"]
            with subprocess.Popen(command, cwd=folder, env=environment, user=65534, group=65534, extra_groups=[],
                                  stdout=subprocess.DEVNULL) as other:
                try:
                    self.assertTrue(eventually(lambda: json.loads(run_tool("--json", "--all-users", other.pid).stdout)["jobs"]))
                    self.assertEqual(jobs_of(other.pid), [])
                    self.assertIn("\n  user        65534\n", run_tool("--all-users", other.pid).stdout)
                finally:
                    other.terminate()

    def test_wrong_options(self):
        for words in (["--watch", "0"], ["--watch", "soon"], ["--all"]):
            result = run_tool(*words)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertRegex(result.stderr, r"^shmem-ft: error: .*\n$")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
