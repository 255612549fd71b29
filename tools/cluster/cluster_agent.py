#!/usr/bin/env python3
"""Starts a command on another host as ssh would: `agent HOST COMMAND...`, called by mpirun for its daemons.

Ends with 0 whatever happens: mpirun takes any other exit code of its agent for a reason to end the job, also when it is
only a host that has died. (An agent that could not start anything says so, and mpirun waits for a daemon that does not
report.) The command goes on when the agent dies: what is lost with the host of the agent, others learn from the network.
"""

import os
import sys

from cluster import Cluster, ClusterError


def main(words):
    try:
        with Cluster.within() as cluster:
            # As with ssh, neither the environment nor the folder is the caller's.
            command = ["sh", "-c", " ".join(words[1:])]
            with cluster.start(command, host=words[0], cwd="/", is_detached=True) as program:
                program.wait(None)
    except ClusterError as error:
        print(f"cluster: error: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)
