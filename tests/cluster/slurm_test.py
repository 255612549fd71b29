"""Jobs inside Slurm (docs/launchers.md): slurmctld, slurmd and munged of this test's own on hosts of a cluster in this
machine (tools/cluster), so that no other Slurm is in the way and everything ends with the hosts. Exit code 77: no cluster
can be made here, or Slurm is not installed."""

import concurrent.futures
import os
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["SFT_SOURCE_DIR"], "tools", "cluster"))

from cluster import Cluster
from traces import eventually, run_or_skip

TIMEOUT_S = 90
OSHRUN = os.environ["OSHRUN"]
FAKE_PE = os.environ["FAKE_PE"]
JACOBI = os.environ["JACOBI1D"]
HOSTS = 3
PROGRAMS = ("slurmctld", "slurmd", "munged", "salloc", "sbatch", "srun")
# Each host has a /run of its own.
FOLDER = "/run/tmp/slurm"
CONFIGURATION = f"""
ClusterName=test
SlurmctldHost=node0
AuthType=auth/munge
AuthInfo=socket={FOLDER}/munge.socket
CredType=cred/munge
SlurmUser=root
StateSaveLocation={FOLDER}/state
SlurmdSpoolDir={FOLDER}/spool
SlurmctldPidFile={FOLDER}/slurmctld.pid
SlurmdPidFile={FOLDER}/slurmd.pid
SlurmctldLogFile={FOLDER}/slurmctld.log
SlurmdLogFile={FOLDER}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdTimeout=5
NodeName=node[0-{HOSTS - 1}] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
START = f"""
set -e
mkdir -p {FOLDER}/state {FOLDER}/spool
install -m 600 "$1" {FOLDER}/munge.key
munged --force --socket={FOLDER}/munge.socket --key-file={FOLDER}/munge.key --pid-file={FOLDER}/munged.pid \
    --log-file={FOLDER}/munged.log --seed-file={FOLDER}/munged.seed
if [ "$(hostname)" = node0 ]; then slurmctld; fi
slurmd
"""
HINT = "srun ends all processes as soon as one dies"


class SlurmTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="slurm-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(f"{self.folder}/slurm.conf", "w", encoding="ascii") as file:
            file.write(CONFIGURATION)
        with open(f"{self.folder}/mpi.conf", "w", encoding="ascii") as file:
            file.write(f"PMIxCliTmpDirBase={FOLDER}\n")  # its own choice is a name in /tmp, which the hosts share
        with open(f"{self.folder}/munge.key", "wb") as file:
            file.write(os.urandom(128))
        self.cluster = Cluster(hosts=HOSTS, slots=2)
        self.addCleanup(self.cluster.close)
        self.environment = {"SLURM_CONF": f"{self.folder}/slurm.conf",
                            "PATH": os.environ["PATH"] + ":/usr/local/sbin:/usr/sbin:/sbin"}
        for host in range(HOSTS):
            self.run_on(host, "sh", "-c", START, "sh", f"{self.folder}/munge.key")
        self.assertTrue(eventually(lambda: self.run_on(0, "sinfo", "-h", "-t", "idle", "-o", "%D").strip() == str(HOSTS),
                                   TIMEOUT_S), self.run_on(0, "sinfo"))

    def run_on(self, host, *command):
        done = self.cluster.run(command, host=host, environment=self.environment, timeout_s=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def run_job(self, *command, environment=None):
        return self.cluster.run(command, environment={**self.environment, **(environment or {})}, timeout_s=TIMEOUT_S)

    def ours(self, done):
        return [line for line in done.stderr.splitlines() if line.startswith(("oshrun:", "shmem-ft:"))]

    @staticmethod
    def results(done):
        return [line for line in done.stdout.splitlines() if line.startswith(("result", "verified"))]

    def test_a_pe_that_is_killed_inside_an_allocation_is_replaced(self):
        faultless = self.run_job("salloc", "-N", "1", "-n", "2", "--no-kill", OSHRUN, "-n", "2", JACOBI, "--verify")
        self.assertEqual(faultless.returncode, 0, faultless)
        done = self.run_job("salloc", "-N", "1", "-n", "2", "--no-kill", OSHRUN, "-n", "2", "--spares", "1", JACOBI,
                            "--verify", environment={"SHMEM_FT_FAULTS": "kill pe 1 at replicate_begin visit 3"})
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("recomputed 64 steps", done.stdout)
        self.assertEqual(self.results(done), self.results(faultless))
        lost = self.run_job("salloc", "-N", "1", "-n", "2", "--no-kill", OSHRUN, "-n", "2", JACOBI,
                            environment={"SHMEM_FT_FAULTS": "kill pe 1 at replicate_begin visit 3"})
        self.assertEqual(lost.returncode, 137, lost)
        self.assertIn("PE 1", self.ours(lost)[-1])

    def test_a_job_on_all_nodes_of_an_allocation(self):
        done = self.run_job("salloc", "-N", "3", "-n", "6", "--no-kill", OSHRUN, "--spare-nodes", "1", "sh", "-c",
                            "echo at $PMIX_RANK $(hostname)")
        self.assertEqual(sorted(re.findall(r"at (\d) node(\d)", done.stdout)),
                         [("0", "0"), ("1", "0"), ("2", "1"), ("3", "1"), ("4", "2"), ("5", "2")], done)
        done = self.run_job("salloc", "-N", "3", "-n", "6", "--no-kill", OSHRUN, FAKE_PE, "*:hello,init,finalize,exit=0",
                            "5:hello,init,sleep=0.1,exit=9")
        self.assertEqual(done.returncode, 9, done)
        self.assertEqual(self.ours(done), ["oshrun: PE 5 exited with code 9 without calling shmem_finalize"])

    def test_the_daemons_are_kept_to_a_folder_and_an_address_of_the_job(self):
        trap = f"ompi.node1.{os.geteuid()}"
        self.run_on(1, "sh", "-c", f"mkdir /run/tmp/victim; ln -s /run/tmp/victim /run/tmp/{trap}")
        before = self.run_on(1, "ls", "-A", "/run/tmp")
        look = ("stat -c '%a %n' /run/tmp/oshrun-*; ls -A /run/tmp/victim; "
                "for daemon in $(pgrep orted); do readlink /proc/$daemon/fd/* | sed -n 's/^socket:.\\([0-9]*\\).$/\\1/p'; done > /run/tmp/own; "
                "awk 'FNR == NR { own[$1]; next } $4 == \"0A\" && $10 in own { print $2 }' /run/tmp/own /proc/net/tcp; rm /run/tmp/own")
        # The daemon stands still while the job ends: the folder is removed all the same.
        stand = ("until pgrep -x oshrun-daemon; do sleep 0.05; done; sleep 0.5; pkill -STOP -x oshrun-daemon; sleep 2; "
                 "pkill -CONT -x oshrun-daemon")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            pool.submit(self.run_on, 1, "sh", "-c", stand)
            done = self.run_job("salloc", "-N", "2", "-n", "2", "--no-kill", OSHRUN, "--map-by", "node", "sh", "-c",
                                f'[ "$(hostname)" = node0 ] || {{ {look}; sleep 1; }}')
        folders = re.findall(r"^(\d+) /run/tmp/(\S+)$", done.stdout, re.M)
        self.assertEqual(len(folders), 1, done)
        self.assertEqual(folders[0][0], "700")
        self.assertRegex(folders[0][1], r"^oshrun-\w{6}$")
        self.assertNotIn("ompi.", done.stdout, "nothing went the way of the link")
        doors = re.findall(r"^([0-9A-F]{8}):[0-9A-F]{4}$", done.stdout, re.M)
        self.assertTrue(doors, done)
        self.assertNotIn("00000000", doors)
        self.assertTrue(eventually(lambda: self.run_on(1, "ls", "-A", "/run/tmp") == before, TIMEOUT_S),
                        self.run_on(1, "ls", "-A", "/run/tmp"))

    def test_a_batch_job_outlives_a_node(self):
        script = f"{self.folder}/job.sh"
        output = f"{self.folder}/out"
        with open(script, "w", encoding="ascii") as file:
            file.write(f"""#!/bin/sh
#SBATCH --nodes=3
#SBATCH --ntasks=6
#SBATCH --no-kill
#SBATCH --output={output}
{OSHRUN} --spare-nodes 1 {FAKE_PE} '*:hello,init,out=ready,sleep=10,out=done,finalize,exit=0'
echo "oshrun has ended with $?"
""")
        self.run_on(0, "sbatch", script)

        def text():
            try:
                with open(output, encoding="utf-8") as file:
                    return file.read()
            except FileNotFoundError:
                return ""
        self.assertTrue(eventually(lambda: text().count("ready") == 6, TIMEOUT_S), text())
        self.cluster.kill_host(2)
        self.assertTrue(eventually(lambda: "has ended" in text(), TIMEOUT_S), text())
        self.assertIn("oshrun has ended with 0", text())
        self.assertIn("oshrun: warning: host node2 is lost, and with it spare 0, spare 1: ", text())
        self.assertEqual(text().count("done"), 4)

    def test_srun_runs_what_does_not_fail_and_says_what_it_cannot_do(self):
        for command in (["srun", "--mpi=pmix", "-N", "1", "-n", "2", JACOBI],
                        ["salloc", "-N", "1", "-n", "2", OSHRUN, "--launcher", "srun", "-n", "2", JACOBI]):
            done = self.run_job(*command)
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual(done.stderr.count(HINT), 1, done)
        done = self.run_job("salloc", "-N", "3", "-n", "3", OSHRUN, "--launcher", "srun", FAKE_PE,
                            "*:hello,init,out=up,finalize,exit=0", "2:hello,init,finalize,exit=7")
        self.assertEqual((done.returncode, done.stdout), (7, "up\nup\n"), done)
        # Inside an allocation auto means mpirun, which can do it.
        done = self.run_job("salloc", "-N", "1", "-n", "2", OSHRUN, "-v", "-n", "2", JACOBI)
        self.assertNotIn(HINT, done.stderr)
        self.assertIn("mpirun", self.ours(done)[0])
        # A death is the end of the whole step, in spite of the spare.
        done = self.run_job("salloc", "-N", "1", "-n", "2", OSHRUN, "--launcher", "srun", "-n", "2", "--spares", "1",
                            JACOBI, environment={"SHMEM_FT_FAULTS": "kill pe 1 at replicate_begin visit 3"})
        self.assertEqual(done.returncode, 137, done)
        # Which of the two is heard of first.
        self.assertRegex(self.ours(done)[-1], r"^oshrun: (PE \d was killed by signal 9 |the launcher srun exited with code 137)")


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} not installed (Debian: slurm-wlm, munge)", file=sys.stderr)
        sys.exit(77)
    sys.exit(run_or_skip())
