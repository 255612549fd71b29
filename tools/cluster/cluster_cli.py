"""The command line of script/cluster."""

import argparse
import contextlib
import json
import os
import re
import select
import signal
import sys
import time

from cluster import Cluster, ClusterError, Unavailable

EXIT_USAGE, EXIT_UNAVAILABLE, EXIT_TIMEOUT, EXIT_CLUSTER = 2, 77, 124, 125
GRACE_S = 5
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

HELP = """\
NAME
    cluster - a cluster in one machine: hosts made of namespaces, to try jobs on several nodes, lost nodes and bad links

SYNOPSIS
    script/cluster run [--name NAME] [--hosts N] [--slots K] [--delay MS] [--rate MBIT] [--loss PERCENT]
                       [--timeout S] [--verbose] [--] [COMMAND [ARGUMENTS...]]
    script/cluster exec  [NAME] HOST -- COMMAND [ARGUMENTS...]
    script/cluster kill  [NAME] HOST... [--close-connections]
    script/cluster cut   [NAME] HOST [OTHER] [--down] [--one-way]
    script/cluster heal  [NAME] HOST [OTHER] [--one-way]
    script/cluster delay [NAME] HOST... MS
    script/cluster loss  [NAME] HOST... PERCENT
    script/cluster rate  [NAME] HOST... MBIT
    script/cluster mtu   [NAME] HOST... BYTES
    script/cluster pids  [NAME] HOST...
    script/cluster list  [--json]

DESCRIPTION
    `run` makes N hosts, node0 to nodeN-1, runs COMMAND (default: your shell) on node0, and ends with its exit code when
    it has ended; then nothing of the cluster is left. While it runs, the other commands change the cluster, from
    another terminal or from COMMAND itself. NAME says which cluster; it may be left out on a host, and where only one
    runs.

    Every host has its own hostname, network, process numbers, /proc, /dev/shm, /run, System V objects, and /etc/hosts,
    in which all hosts are. All else of the file system is the machine's own, as if it were on a network disk.
    Processors and memory are shared. Hosts reach each other and nothing else: there is no way from a host to a real
    network.

    Several clusters at once do not see each other. Nothing of a cluster has a name outside of it but an abstract
    socket, so however script/cluster ends, SIGKILL included, nothing is left: no process, namespace, bridge or file.

OPTIONS OF run
    --name NAME       how other commands call it (letters, digits, - and _). Default: one is made up
    --hosts N         number of hosts, 1 to 200. Default: 2
    --slots K         processes that mpirun puts on each. Default: 1
    --delay MS        everything that leaves a host arrives so much later. Default: 0
    --rate MBIT       what a host can send, and can receive. Default: no limit
    --loss PERCENT    so much of what leaves a host is lost. Default: 0
    --timeout S       end COMMAND and the cluster after S seconds, with 124. Default: never
    --verbose         say on the standard error what the cluster is called, and when it is up and gone

OTHER COMMANDS
    exec              runs COMMAND on a host; ends with its exit code
    kill              kills all processes of a host at once. Its peers hear nothing, as if it had lost its power; with
                      --close-connections they do, as if only its processes had been killed
    cut               loses silently what a host sends and what is sent to it; with --down the host sees it, too, as if
                      the cable had been pulled. With OTHER: only what goes between the two, or from HOST to OTHER
                      (--one-way)
    heal              undoes `cut`. Without OTHER: all cuts of the host
    delay, loss, rate change the links of hosts; 0 takes it away. A delay costs a process on the machine and is 0.1 ms
                      more than asked for
    mtu               packets of more bytes are lost silently, from the host and to it, as where one card or switch of a
                      network takes less than the others; 0 takes it away
    pids              process numbers, as they are outside of the cluster
    list              running clusters, with their hosts and what is wrong with them

ENVIRONMENT OF COMMAND
    That of script/cluster, and
    CLUSTER_NAME      the name of the cluster               CLUSTER_HOST   the host that the process runs on
    CLUSTER_HOSTS     `node0 node1 ...`                     CLUSTER_HOST_LIST  `node0:2,node1:2,...`
    CLUSTER_HOSTFILE  file with `node0 slots=2` in lines    CLUSTER_AGENT  program that runs a command on a host:
                                                                           $CLUSTER_AGENT node1 COMMAND...
    TMPDIR            a folder of the host's own
    OMPI_MCA_...      that Open MPI's mpirun uses all of it, and may run as root. So `mpirun -n 4 ./program` uses all
                      hosts. --enable-recovery lets a job go on when a host dies

EXIT STATUS
    of COMMAND        also 126 and 127 if it cannot be run, 128 + signal if it was killed by one
    2                 wrong arguments
    77                no cluster can be made here: not root, or namespaces are not allowed
    124               the time of --timeout is over
    125               something is wrong with the cluster: the line on the standard error says what

SIGNALS
    SIGINT, SIGTERM, SIGHUP and SIGQUIT go to COMMAND, which has 5 seconds to end then; a second one ends all at once.

EXAMPLES
    script/cluster run --hosts 4 --slots 2 -- mpirun --map-by node ./program
    script/cluster run --hosts 2 --delay 0.5 --rate 1000 -- ping -c 3 node1
    script/cluster run --name lab --hosts 3                 # a shell on node0; then, in another terminal:
    script/cluster exec lab node1 -- hostname
    script/cluster cut lab node2

SEE ALSO
    docs/cluster.md, also for the Python class that tests use
"""


class UsageError(Exception):
    pass


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise UsageError(message)


def _say(text):
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def _split(words):
    """What comes before and after `--`."""
    return (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])


def _cluster_and_hosts(words):
    """The cluster that the words are about, and the words without its name."""
    is_host = bool(words) and re.fullmatch(r"node\d+", words[0])
    if words and not is_host:
        name = words[0]
        if name not in Cluster.names():
            raise ClusterError(f"no cluster '{name}' runs: {' '.join(Cluster.names()) or 'there is none'}")
        return Cluster.named(name), words[1:]
    if os.environ.get("CLUSTER_SOCKET") and os.path.exists(os.environ["CLUSTER_SOCKET"]):
        return Cluster.within(), words
    names = Cluster.names()
    if len(names) != 1:
        raise ClusterError(f"name one of the clusters that run: {' '.join(names)}" if names else "no cluster runs")
    return Cluster.named(names[0]), words


def _number(words, unit):
    try:
        return float(words[-1])
    except (IndexError, ValueError):
        raise UsageError(f"the last word has to be a number of {unit}") from None


class Ending:
    """Signals that ask script/cluster to end, as something to select on."""

    def __init__(self):
        self._wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(woken)
        for number in FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup stays what it is
                signal.signal(number, lambda *_: None)

    def fileno(self):
        return self._wake

    def numbers(self):
        with contextlib.suppress(BlockingIOError):
            return os.read(self._wake, 64)
        return b""


def _wait_for(program, cluster, ending, timeout_s):
    """The exit code of script/cluster for a program that runs."""
    deadline = time.monotonic() + timeout_s if timeout_s else None
    asked = 0
    while program.poll() is None:
        left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
        if left_s == 0:
            program.signal(signal.SIGKILL)
            if not asked:
                _say(f"error: the command still ran after {timeout_s:g} s")
            return 128 + asked if asked else EXIT_TIMEOUT
        readable, _, _ = select.select([program, ending] + ([cluster] if cluster else []), [], [], left_s)
        for number in ending.numbers():
            if asked:
                program.signal(signal.SIGKILL)
                return 128 + number
            asked, deadline = number, time.monotonic() + GRACE_S
            program.signal(number)
        if cluster in readable:
            raise ClusterError("the processes of the cluster have been killed")
    return program.wait(0)


def _run(words):
    own, command = _split_run(words)
    parser = Parser(add_help=False)
    parser.add_argument("--name")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--slots", type=int, default=1)
    for option in ("--delay", "--rate", "--loss", "--timeout"):
        parser.add_argument(option, type=float, default=0)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(own)
    if options.name and (not re.fullmatch(r"[\w-]{1,64}", options.name) or re.fullmatch(r"node\d+", options.name)):
        raise UsageError(f"'{options.name}' cannot be a name: letters, digits, - and _, and not like that of a host")
    ending = Ending()
    begin = time.monotonic()
    with Cluster(
        options.hosts,
        options.slots,
        name=options.name,
        delay_ms=options.delay,
        rate_mbit=options.rate,
        loss_percent=options.loss,
    ) as cluster:
        if options.verbose:
            _say(f"'{cluster.name}' is up after {time.monotonic() - begin:.2f} s: {' '.join(cluster.hosts)}")
        with cluster.start(command or [os.environ.get("SHELL", "/bin/sh")]) as program:
            code = _wait_for(program, cluster, ending, options.timeout)
    if options.verbose:
        _say(f"'{cluster.name}' is gone")
    return code


def _split_run(words):
    """The command begins behind `--`, or with the first word that is no option."""
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] != "--":
        index += 1 if words[index] == "--verbose" or "=" in words[index] else 2
    return words[:index], words[index + (words[index : index + 1] == ["--"]) :]


def _exec(words):
    own, command = _split(words)
    if not command:
        raise UsageError("a command is missing: exec [NAME] HOST -- COMMAND")
    cluster, hosts = _cluster_and_hosts(own)
    if len(hosts) != 1:
        raise UsageError("exec needs one host")
    with cluster.start(command, host=hosts[0]) as program:
        return _wait_for(program, None, Ending(), 0)


def _kill(words):
    flags = [word for word in _some(words) if word == "--close-connections"]
    cluster, hosts = _cluster_and_hosts([word for word in words if word not in flags])
    for host in _some(hosts):
        cluster.kill_host(host, is_silent=not flags)


def _some(hosts):
    if not hosts:
        raise UsageError("a host is missing")
    return hosts


def _cut(words, is_healing=False):
    known = {"--one-way"} if is_healing else {"--down", "--one-way"}
    flags = known.intersection(_some(words))
    cluster, hosts = _cluster_and_hosts([word for word in words if word not in flags])
    if len(hosts) == 2 and "--down" not in flags:
        change = cluster.heal_between if is_healing else cluster.cut_between
        change(*hosts, is_one_way="--one-way" in flags)
    elif len(hosts) == 1 and "--one-way" not in flags:
        if is_healing:
            cluster.heal(hosts[0])
        else:
            cluster.cut(hosts[0], "down" if "--down" in flags else "drop")
    else:
        raise UsageError("one host, or two of which the traffic between them is meant; see --help")


def _heal(words):
    _cut(words, is_healing=True)


def _change_links(method, unit):
    def change(words):
        value = _number(words, unit)
        cluster, hosts = _cluster_and_hosts(words[:-1])
        for host in _some(hosts):
            getattr(cluster, method)(host, value)

    return change


def _pids(words):
    cluster, hosts = _cluster_and_hosts(_some(words))
    for host in _some(hosts):
        print(*cluster.pids(host))


def _list(words):
    if words not in ([], ["--json"]):
        raise UsageError("list has no argument but --json")
    found = []
    with contextlib.suppress(ClusterError):  # on a host its own cluster is the only one to be seen
        found.append(Cluster.within().describe())
    for name in Cluster.names():
        with contextlib.suppress(ClusterError):  # it has ended meanwhile
            found.append(Cluster.named(name).describe())
    if words:
        print(json.dumps(found))
        return
    for cluster in found:
        print(f"{cluster['name']}: {len(cluster['hosts'])} hosts, {cluster['slots']} slots each")
        for host in cluster["hosts"]:
            traits = [f"{key} {host[key]:g}" for key in ("delay_ms", "loss_percent", "rate_mbit", "mtu") if host[key]]
            traits += [f"cut ({host['cut']})"] if host["cut"] else []
            traits += [f"cut off from {' '.join(host['unreachable'])}"] if host["unreachable"] else []
            print(f"  {host['name']} {host['address']} {', '.join(traits) if host['is_alive'] else 'dead'}".rstrip())


ACTIONS = {
    "run": _run,
    "exec": _exec,
    "kill": _kill,
    "cut": _cut,
    "heal": _heal,
    "delay": _change_links("delay", "milliseconds"),
    "loss": _change_links("loss", "percent"),
    "mtu": _change_links("mtu", "bytes"),
    "rate": _change_links("rate", "Mbit/s"),
    "pids": _pids,
    "list": _list,
}


def main(words):
    if not words or _split_run(words)[0][:1] in (["-h"], ["--help"]) or words[1:2] in (["-h"], ["--help"]):
        print(HELP, end="", file=sys.stdout if words else sys.stderr)
        return 0 if words else EXIT_USAGE
    try:
        if words[0] not in ACTIONS:
            raise UsageError(f"unknown command '{words[0]}'; known: {' '.join(ACTIONS)}")
        return ACTIONS[words[0]](words[1:]) or 0
    except UsageError as error:
        _say(f"error: {words[0]}: {error} (try --help)")
        return EXIT_USAGE
    except Unavailable as error:
        _say(f"error: {error}")
        return EXIT_UNAVAILABLE
    except ClusterError as error:
        _say(f"error: {error}")
        return EXIT_CLUSTER
