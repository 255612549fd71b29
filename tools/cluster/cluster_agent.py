#!/usr/bin/env python3
"""Starts a command on another host as ssh would: `agent HOST COMMAND...`, called by mpirun for its daemons.

Ends with 0 whatever happens: mpirun takes any other exit code of its agent for a reason to end the job, also when it is
only a host that has died. (An agent that could not start anything says so, and mpirun waits for a
daemon that does not report.)
"""

import os
import sys

from cluster import Cluster, ClusterError


def main(words):
    host, command = words[0], " ".join(words[1:])
    try:
        with Cluster.within() as cluster:
            # As with ssh, the environment is not that of the caller.
            names = ("CLUSTER_HOST",)
            with cluster.start(["sh", "-c", command], host=host, environment={}, cwd="/", inherit=names) as program:
                program.wait(None)
    except ClusterError as error:
        print(f"cluster: error: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)
