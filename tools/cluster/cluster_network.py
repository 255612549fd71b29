"""The network of a cluster: a bridge in a namespace of its own, and a link from it to every host.

    host i: eth0 <-> up<i> (hub) - bridge                     an ordinary link
    host i: eth0 <-> up<i> - relay - rl<i> <-> rb<i> - bridge  one that delays or loses

No packet can leave: the hub has no address and no way to the machine's own network, so that all clusters use the same
addresses. Hosts know each other's hardware addresses from the start: nothing is lost or learned again when a link
heals, and sending a peer's frames to an address that nobody has is what cuts two hosts off from each other silently.
"""

import os
import signal
import subprocess

import cluster_kernel as kernel
from cluster_relay import start_relay

COMMAND_TIMEOUT_S = 20
NOBODY = "02:5f:74:ff:ff:ff"
HOSTS_MAX = 200


# What the kernel says when it has no such thing, or may not give it to us.
REFUSALS = ("Operation not permitted", "Operation not supported", "Unknown device type")


class NetworkError(Exception):
    pass


class NotHereError(NetworkError):
    """It is not to be had on this machine, whatever is asked for."""


def host_name(index):
    return f"node{index}"


def address_of(index):
    return f"10.213.0.{index + 1}"


def _mac_of(index):
    return f"02:5f:74:00:00:{index + 1:02x}"


def _run(words, text=None, entry_fd=None):
    """Runs a command of iproute2, in the network of the host of a pidfd if one is given."""
    enter = None if entry_fd is None else lambda: kernel.setns(entry_fd, kernel.NEWNET)
    try:
        done = subprocess.run(
            words,
            input=text,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            preexec_fn=enter,
            pass_fds=[] if entry_fd is None else [entry_fd],
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NetworkError(f"'{' '.join(words)}' has not ended within {COMMAND_TIMEOUT_S} s") from None
    if done.returncode != 0:
        reason = " ".join((done.stderr or done.stdout).split())
        kind = NotHereError if any(refusal in reason for refusal in REFUSALS) else NetworkError
        raise kind(f"'{' '.join(words)}' failed: {reason}")


def _ip(lines, entry_fd=None):
    _run(["ip", "-batch", "-"], "\n".join(lines) + "\n", entry_fd)


class Link:
    """What is wanted of a host's link, and what has been made of it."""

    def __init__(self, index, entry_fd):
        self.index = index
        self.entry_fd = entry_fd
        self.delay_ms = 0.0
        self.loss_percent = 0.0
        self.rate_mbit = 0.0
        self.mtu = 0
        self.cut = ""  # or "drop", or "down"
        self.unreachable = set()  # hosts to which nothing of this one gets through
        self.relay_pid = 0  # 0 also if it has ended unasked
        self.is_relayed = False

    def described(self):
        return {
            "delay_ms": self.delay_ms,
            "loss_percent": self.loss_percent,
            "rate_mbit": self.rate_mbit,
            "mtu": self.mtu,
            "cut": self.cut,
            "unreachable": sorted(host_name(index) for index in self.unreachable),
        }


class Network:
    """Used by the hub only, inside its namespaces. REQUIRES: entry_fds are pidfds of the hosts' first processes."""

    def __init__(self, entry_fds):
        self.links = [Link(index, fd) for index, fd in enumerate(entry_fds)]
        _ip(
            ["link set lo up", "link add br0 type bridge", "link set br0 up"]
            + [line for link in self.links for line in self._lines_of_hub(link)]
        )
        # Frames for nobody end in the bridge instead of reaching every host.
        _run(["bridge", "fdb", "add", NOBODY, "dev", "br0", "self", "local"])
        for link in self.links:
            _ip(self._lines_of_host(link), link.entry_fd)

    def _lines_of_hub(self, link):
        with open(f"/proc/self/fdinfo/{link.entry_fd}", encoding="ascii") as info:
            pid = next(line.split()[1] for line in info if line.startswith("Pid:"))
        up = f"up{link.index}"
        return [
            f"link add {up} type veth peer name eth0 address {_mac_of(link.index)} netns {pid}",
            f"link set {up} master br0 up",
        ]

    def _lines_of_host(self, link):
        others = [other.index for other in self.links if other is not link]
        return ["link set lo up", f"address add {address_of(link.index)}/24 dev eth0", "link set eth0 up"] + [
            f"neighbour replace {address_of(other)} lladdr {_mac_of(other)} nud permanent dev eth0" for other in others
        ]

    def shape(self, index, delay_ms=None, loss_percent=None, mtu=None):
        """Delays what leaves the host, and loses some of it; loses all larger packets, either way, and tells nobody."""
        link = self.links[index]
        link.delay_ms = link.delay_ms if delay_ms is None else delay_ms
        link.loss_percent = link.loss_percent if loss_percent is None else loss_percent
        link.mtu = link.mtu if mtu is None else mtu
        up, bridged, relayed = f"up{index}", f"rb{index}", f"rl{index}"
        is_wanted = bool(link.delay_ms or link.loss_percent or link.mtu)
        self._end_relay(link)
        if is_wanted and not link.is_relayed:
            attach = [] if link.cut == "drop" else [f"link set {bridged} master br0"]
            _ip(
                [
                    f"link add {relayed} type veth peer name {bridged}",
                    f"link set {relayed} up",
                    f"link set {bridged} up",
                    f"link set {up} nomaster",
                    *attach,
                ]
            )
        elif link.is_relayed and not is_wanted:
            _ip([f"link delete {relayed}"] + ([] if link.cut == "drop" else [f"link set {up} master br0"]))
        link.is_relayed = is_wanted
        if is_wanted:
            link.relay_pid = start_relay(up, relayed, link.delay_ms / 1000, link.loss_percent / 100, link.mtu)

    @staticmethod
    def _end_relay(link):
        if link.relay_pid:
            os.kill(link.relay_pid, signal.SIGKILL)
            os.waitpid(link.relay_pid, 0)
            link.relay_pid = 0

    def remove(self, index):
        """The host is about to die: from now on nobody hears of it, not even that its connections are closed."""
        link = self.links[index]
        self._end_relay(link)
        _ip([f"link delete up{index}"] + ([f"link delete rl{index}"] if link.is_relayed else []))

    def rate(self, index, rate_mbit):
        """Limits what leaves the host and what comes to it, each to this rate; 0 takes the limit away."""
        link = self.links[index]
        for device, entry_fd in (("eth0", link.entry_fd), (f"up{index}", None)):
            if rate_mbit:
                # A millisecond's worth at once, but never less than a frame; a queue of 50 ms.
                burst = max(16384, int(rate_mbit * 125))
                _run(
                    [
                        "tc",
                        "qdisc",
                        "replace",
                        "dev",
                        device,
                        "root",
                        "tbf",
                        "rate",
                        f"{int(rate_mbit * 1e6)}bit",
                        "burst",
                        str(burst),
                        "latency",
                        "50ms",
                    ],
                    entry_fd=entry_fd,
                )
            elif link.rate_mbit:
                _run(["tc", "qdisc", "delete", "dev", device, "root"], entry_fd=entry_fd)
        link.rate_mbit = rate_mbit

    def cut(self, index, how):
        """`drop`: nothing gets through, and nobody is told. `down`: the card of the host sees that the cable is out,
        too."""
        link = self.links[index]
        self.heal(index)
        _ip([f"link set up{index} down"] if how == "down" else [f"link set {self._port(link)} nomaster"])
        link.cut = how

    def heal(self, index):
        link = self.links[index]
        if link.cut:
            _ip([f"link set up{index} up"] if link.cut == "down" else [f"link set {self._port(link)} master br0"])
        link.cut = ""

    def reach(self, source, target, is_reachable):
        """Whether what `source` sends arrives at `target`."""
        link = self.links[source]
        mac = _mac_of(target) if is_reachable else NOBODY
        _ip([f"neighbour replace {address_of(target)} lladdr {mac} nud permanent dev eth0"], link.entry_fd)
        (link.unreachable.discard if is_reachable else link.unreachable.add)(target)

    @staticmethod
    def _port(link):
        return f"rb{link.index}" if link.is_relayed else f"up{link.index}"
