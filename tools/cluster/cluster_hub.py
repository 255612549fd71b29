#!/usr/bin/env python3
"""The processes behind a cluster: a guardian, and the hub that makes the hosts and does what is asked of it.

    cluster_hub.py LIFELINE LISTENER        with a description of the cluster on the standard input; used by cluster.py

The hub is the first process of a process namespace in which everything of the cluster lives, the hosts in namespaces of
their own below it. When the hub dies, the kernel kills all of it and takes back networks, mounts and memory: nothing of
a cluster has a name outside, so nothing can be left. The guardian, outside, waits for the end of the lifeline, which is
when whoever made the cluster closes it or dies of whatever; then it kills the hub. If the guardian dies, the kernel
kills the hub.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys

import cluster_host
import cluster_kernel as kernel
import cluster_network as network

MESSAGE_BYTES_MAX = 1 << 20
KILL_TIMEOUT_S = 10
AGENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cluster_agent.py")


class RequestError(Exception):
    pass


class Hub:
    def __init__(self, wanted, listener):
        self.name = wanted["name"]
        self.slots = wanted["slots"]
        self.environment = wanted["env"]
        self.hosts = [network.host_name(index) for index in range(wanted["hosts"])]
        self.dead = set()
        self.running = {}  # helper's pid -> (Spawned, connection)
        self.connections = {}  # file descriptor -> socket
        self._share_files()
        self.listeners = [listener, self._listen_for_hosts()]
        hosts_text = "127.0.0.1 localhost\n" + "".join(
            f"{network.address_of(index)} {name}\n" for index, name in enumerate(self.hosts)
        )
        self.entry_fds = [cluster_host.start_host(name, hosts_text) for name in self.hosts]
        self.network = network.Network(self.entry_fds)
        self.environment.update(self._environment_of_hosts())

    def _share_files(self):
        kernel.mount("none", "/", flags=kernel.MS_PRIVATE | kernel.MS_REC)
        kernel.mount("proc", "/proc", "proc")
        kernel.mount("tmpfs", "/run", "tmpfs", options="mode=755")
        os.mkdir(cluster_host.HOSTS_FOLDER)
        with open(f"{cluster_host.HOSTS_FOLDER}/agent", "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec '{sys.executable}' '{AGENT}' \"$@\"\n")
        os.chmod(file.name, 0o755)
        with open(f"{cluster_host.HOSTS_FOLDER}/hostfile", "w", encoding="ascii") as file:
            file.writelines(f"{name} slots={self.slots}\n" for name in self.hosts)

    def _environment_of_hosts(self):
        folder = cluster_host.HOSTS_FOLDER
        return {
            "CLUSTER_NAME": self.name,
            "CLUSTER_HOSTS": " ".join(self.hosts),
            "CLUSTER_HOST_LIST": ",".join(f"{name}:{self.slots}" for name in self.hosts),
            "CLUSTER_HOSTFILE": f"{folder}/hostfile",
            "CLUSTER_AGENT": f"{folder}/agent",
            "CLUSTER_SOCKET": f"{folder}/hub",
            "TMPDIR": cluster_host.TEMP_FOLDER,
            "OMPI_MCA_plm_rsh_agent": f"{folder}/agent",
            "OMPI_MCA_orte_default_hostfile": f"{folder}/hostfile",
            # All hosts share the cores of this machine: bound processes would lie on the same few.
            "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }

    @staticmethod
    def _listen_for_hosts():
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(f"{cluster_host.HOSTS_FOLDER}/hub")
        listener.listen(64)
        return listener

    def serve(self):
        """Until it is killed."""
        wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            readable, _, _ = select.select([wake, *self.listeners, *self.connections.values()], [], [])
            if wake in readable:
                os.read(wake, 4096)
            self._reap()
            for item in readable:
                if item in self.listeners:
                    connection = item.accept()[0]
                    self.connections[connection.fileno()] = connection
                elif item != wake and item.fileno() in self.connections:
                    self._serve_connection(item)

    def _reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            spawned, connection = self.running.pop(pid, (None, None))
            if spawned:
                spawned.close()
                self._answer(connection, {"exit": os.waitstatus_to_exitcode(status)})
            for link in self.network.links:
                if link.relay_pid == pid:
                    link.relay_pid = 0
                    print(
                        f"cluster: error: the relay of {network.host_name(link.index)} has ended, its link is cut",
                        file=sys.stderr,
                        flush=True,
                    )

    @staticmethod
    def _answer(connection, message, fds=()):
        with contextlib.suppress(OSError):  # who asked is gone, or reads nothing
            socket.send_fds(connection, [json.dumps(message).encode()], list(fds), socket.MSG_DONTWAIT)

    def _serve_connection(self, connection):
        try:
            data, fds, _, _ = socket.recv_fds(connection, MESSAGE_BYTES_MAX, 3)
        except OSError:
            data, fds = b"", []
        if not data:
            self._forget(connection)
            return
        try:
            answer = self._do(connection, json.loads(data), fds)
            if answer is not None:
                self._answer(connection, *answer)
        except (RequestError, network.NetworkError, OSError) as error:
            self._answer(connection, {"error": str(error)})
        except (KeyError, TypeError, ValueError) as error:  # of another version of these files, or not of them at all
            self._answer(connection, {"error": f"the request makes no sense: {error!r}"})
        finally:
            for fd in fds:
                os.close(fd)

    def _forget(self, connection):
        """Nobody can hear any more how the program ends that was started here: it is asked to end, if it is not detached."""
        for spawned, owner in self.running.values():
            if owner is connection and not spawned.is_detached:
                spawned.signal(signal.SIGTERM)
        del self.connections[connection.fileno()]
        connection.close()

    def _host(self, request, key="host"):
        name = request[key]
        if name not in self.hosts:
            raise RequestError(
                f"there is no host '{name}' in cluster '{self.name}': it has {self.hosts[0]} to {self.hosts[-1]}"
            )
        index = self.hosts.index(name)
        if index in self.dead:
            raise RequestError(f"{name} is dead")
        return index

    def _do(self, connection, request, fds):
        """Returns the answer, and file descriptors that go with it; None for a signal, which has no answer."""
        action = request["do"]
        if action == "describe":
            return (self._describe(),)
        if action == "signal":
            for spawned, owner in self.running.values():
                if owner is connection:
                    spawned.signal(request["number"])
            return None
        index = self._host(request)
        if action == "start":
            return (self._start(connection, index, request, fds),)
        if action == "pidfd":
            return {}, [self.entry_fds[index]]
        if action == "kill":
            self._kill(index, request["is_silent"])
        elif action == "shape":
            self.network.shape(
                index, request.get("delay_ms"), request.get("loss_percent"), request.get("mtu")
            )
        elif action == "rate":
            self.network.rate(index, request["rate_mbit"])
        elif action == "cut":
            self.network.cut(index, request["how"])
        elif action == "heal":
            self.network.heal(index)
            for other in set(range(len(self.hosts))) - {index} - self.dead:
                self.network.reach(index, other, True)
                self.network.reach(other, index, True)
        elif action == "reach":
            self.network.reach(index, self._host(request, "to"), request["is_reachable"])
        else:
            raise RequestError(f"unknown request '{action}'")
        return ({},)

    def _describe(self):
        return {
            "name": self.name,
            "slots": self.slots,
            "hosts": [
                {
                    "name": name,
                    "address": network.address_of(index),
                    "is_alive": index not in self.dead,
                    **self.network.links[index].described(),
                }
                for index, name in enumerate(self.hosts)
            ],
        }

    def _start(self, connection, index, request, fds):
        if len(fds) != 3:
            raise RequestError("a program needs three standard streams")
        request["env"] = {**self.environment, **request["env"], "CLUSTER_HOST": self.hosts[index]}
        spawned = cluster_host.spawn(self.entry_fds[index], self.hosts[index], request, fds)
        spawned.is_detached = request["is_detached"]
        self.running[spawned.helper] = spawned, connection
        return {"is_started": True}

    def _kill(self, index, is_silent):
        if is_silent:
            self.network.remove(index)
        self.dead.add(index)
        signal.pidfd_send_signal(self.entry_fds[index], signal.SIGKILL)
        # Readable when all of the host's processes have ended; the first one is there until this process has reaped it.
        if not select.select([self.entry_fds[index]], [], [], KILL_TIMEOUT_S)[0]:
            raise RequestError(f"{self.hosts[index]} still has processes {KILL_TIMEOUT_S} s after it was killed")
        self._reap()
        if not is_silent:
            with contextlib.suppress(network.NetworkError):  # the kernel may have taken its end of the link already
                self.network.remove(index)


def run_hub(wanted, lifeline, listener, guardian_fd):
    """Never returns. The first word through the lifeline says whether the cluster is there."""
    kernel.die_with_parent(signal.SIGKILL)
    if select.select([guardian_fd], [], [], 0)[0]:
        os._exit(1)  # it had ended before that was said
    os.close(guardian_fd)
    kernel.set_process_name("cluster-hub")
    try:
        hub = Hub(wanted, listener)
    except (OSError, network.NetworkError) as error:
        is_forbidden = isinstance(error, (PermissionError, network.NotHereError))
        lifeline.send(json.dumps({"error": str(error), "is_forbidden": is_forbidden}).encode())
        os._exit(1)
    lifeline.send(json.dumps(hub._describe()).encode())
    lifeline.close()
    hub.serve()


def main(lifeline_fd, listener_fd):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to everybody; the lifeline is what counts
    os.setsid()
    kernel.set_process_name("cluster-guard")
    lifeline, listener = socket.socket(fileno=lifeline_fd), socket.socket(fileno=listener_fd)
    wanted = json.load(sys.stdin)
    try:
        kernel.unshare(kernel.ALL_OF_A_HOST)
    except PermissionError:
        lifeline.send(
            json.dumps(
                {
                    "error": "namespaces are not allowed here: run it as root, outside of a container "
                    "or in a privileged one",
                    "is_forbidden": True,
                }
            ).encode()
        )
        return 1
    guardian_fd = os.pidfd_open(os.getpid())
    hub = os.fork()
    if hub == 0:
        run_hub(wanted, lifeline, listener, guardian_fd)
    listener.close()
    hub_fd = os.pidfd_open(hub)
    readable, _, _ = select.select([lifeline, hub_fd], [], [])
    if lifeline in readable:
        signal.pidfd_send_signal(hub_fd, signal.SIGKILL)
    os.waitpid(hub, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
