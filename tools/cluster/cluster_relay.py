"""A wire that delays and loses frames, or those above some size only: a process between the link of a host and the bridge.

The kernel's own means (netem) is missing in many small kernels, so that this is the one way everywhere. What leaves the
host is held back for the delay, or lost; what comes in passes at once. Frames are read and written together with the
header that says what the network card would have had to do (checksum, segments), so that a frame here may be 64 KiB of
a TCP stream, and one interpreter keeps up with some GB/s of bulk or some ten thousand small frames a second. Added to
every delay is what Python and the scheduler take, about 0.1 ms on an idle machine.
"""

import collections
import os
import random
import select
import socket
import struct
import time

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
ETH_P_ALL = 3
SO_RCVBUFFORCE, SO_SNDBUFFORCE = 33, 32
FRAME_BYTES_MAX = 10 + 65536 + 64
BATCH = 64
VNET_HEADER = struct.Struct("=BBHHHH")  # flags, kind of segments, bytes of headers, of a segment, start of the checksum, ...
ETHERNET_HEADER_BYTES = 14


def _open_device(name):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    # Room for what a fast sender has on the way during a delay; a full buffer loses frames, like a real switch.
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 16 << 20)
    sock.bind((name, ETH_P_ALL))
    sock.setblocking(False)
    return sock


def _frames(sock):
    """What has come in, at most so much that the other direction is not kept waiting."""
    for _ in range(BATCH):
        try:
            yield sock.recv(FRAME_BYTES_MAX)
        except OSError:  # nothing more, or the device is down just now
            return


def _send(sock, frame):
    try:
        sock.send(frame)
    except OSError:
        pass  # no room, or the device is down: the frame is lost, and the hosts have to live with that


def packet_bytes(frame):
    """Of the internet protocol, the largest of those that a card would have made of it."""
    _, kind, _, segment_bytes, checksum_start, _ = VNET_HEADER.unpack_from(frame)
    if not kind:
        return len(frame) - VNET_HEADER.size - ETHERNET_HEADER_BYTES
    # The checksum to be filled in is that of the transport protocol, and only TCP is cut into segments here.
    tcp = VNET_HEADER.size + checksum_start
    header_bytes = checksum_start - ETHERNET_HEADER_BYTES + (frame[tcp + 12] >> 4) * 4
    return min(header_bytes + segment_bytes, len(frame) - VNET_HEADER.size - ETHERNET_HEADER_BYTES)


def relay(host_device, bridge_device, delay_s, loss, mtu):
    """Runs until it is killed. `loss` is the share of frames from the host that do not arrive, 0 to 1; `mtu`, if it is not
    0, is the size of the largest packet that gets through, either way."""
    host, bridge = _open_device(host_device), _open_device(bridge_device)
    held = collections.deque()  # (when to send, frame): the delay is the same for all, so the order is, too
    while True:
        wait_s = max(0.0, held[0][0] - time.monotonic()) if held else None
        readable, _, _ = select.select([host, bridge], [], [], wait_s)
        now = time.monotonic()
        while held and held[0][0] <= now:
            _send(bridge, held.popleft()[1])
        if bridge in readable:
            for frame in _frames(bridge):
                if not mtu or packet_bytes(frame) <= mtu:
                    _send(host, frame)
        if host in readable:
            for frame in _frames(host):
                if (loss and random.random() < loss) or (mtu and packet_bytes(frame) > mtu):
                    continue
                held.append((now + delay_s, frame))


def start_relay(*arguments):
    """Returns the pid of a child that relays."""
    pid = os.fork()
    if pid == 0:
        try:
            relay(*arguments)
        finally:
            os._exit(1)
    return pid
