"""shmem-ft plan of a job that runs: what its processes have agreed on, read from outside."""

import json
import os
import signal
import subprocess
import unittest

from job_process import eventually
from status_test import TOOL, await_job, jacobi, jobs_of


def plan_of(job, *options):
    return subprocess.run([TOOL, "plan", str(job.process.pid), *options], capture_output=True, text=True, timeout=60, check=False)


class PlanOfARunningJob(unittest.TestCase):
    def test_an_only_pe(self):
        with jacobi(pes=1) as job:
            status = await_job(job, lambda it: it["version"] > 1)
            self.assertIn("1 PE and 2 spares on 1 host\n", plan_of(job).stdout)
            os.kill(status["pes"][0]["pid"], signal.SIGKILL)
            await_job(job, lambda it: it["view"] == 1)
            self.assertIn("1 PE and 1 spare on 1 host\n", plan_of(job).stdout)

    def test_an_only_pe_on_several_nodes_has_no_records(self):
        with jacobi(pes=1, env={"SHMEM_FT_PRETEND_NODES": "2"}) as job:
            def node_of_pe():
                return next((node for node in jobs_of(job.process.pid) if node["version"] > 1 and node["pes"]
                             and node["pes"][0]["pid"]), None)

            before = eventually(node_of_pe)
            self.assertIn("1 PE and 2 spares on 2 hosts\n", plan_of(job).stdout)
            os.kill(before["pes"][0]["pid"], signal.SIGKILL)
            self.assertTrue(eventually(lambda: any(node["view"] == 1 for node in jobs_of(job.process.pid))))
            after = plan_of(job)
            self.assertEqual((after.returncode, after.stdout), (2, ""))
            self.assertIn("has had deaths, and no memory in which it says what it has agreed on", after.stderr)

    def test_where_everything_is_behind_a_death(self):
        def plans(job, settled):
            def look():
                plan = plan_of(job, "--json")
                return plan.returncode == 0 and settled(json.loads(plan.stdout)) and json.loads(plan.stdout)

            return eventually(look)

        def where(plan, what):
            return [host[what] for host in plan["hosts"]]

        with jacobi(pes=4, spares=3, env={"SHMEM_FT_PRETEND_NODES": "3", "SHMEM_FT_BACKUP_MODE": "replica:2"}) as job:
            statuses = eventually(lambda: (found := jobs_of(job.process.pid)) and len(found) == 3
                                  and all(node["version"] > 1 for node in found) and found)
            plan = plans(job, lambda it: True)
            self.assertEqual([host["name"] for host in plan["hosts"]], [f"pretended node {node}" for node in range(3)])
            self.assertEqual((where(plan, "pes"), where(plan, "spares")), ([[0, 3], [1], [2]], [[6], [4], [5]]))
            self.assertEqual((plan["copies"], plan["spares"]), (2, 3))
            pids = {pe["pe"]: pe["pid"] for node in statuses for pe in node["pes"] if pe["pid"]}
            os.kill(pids[1], signal.SIGKILL)
            plan = plans(job, lambda it: it["spares"] == 2)
            self.assertEqual((where(plan, "pes"), where(plan, "spares")), ([[0, 3], [1], [2]], [[6], [], [5]]))
            text = plan_of(job, "--lost", "pretended node 2")
            self.assertIn("4 PEs and 2 spares on 3 hosts\n", text.stdout)
            self.assertIn("\nafter the loss of pretended node 2: 4 PEs and 0 spares on 2 hosts\n", text.stdout)


if __name__ == "__main__":
    unittest.main()
