"""An attacker on a host of a cluster: records what the connections of a job carry, and troubles its ports.

    attacker.py record FILE          until SIGTERM; a line on stdout says that it has begun
    attacker.py attack KIND ADDRESS DOORS --seconds S [--uid N] [--recording FILE]

DOORS: tcp:PORT, udp:PORT and unix:NAME (an abstract socket, hexadecimal), with commas. It tells on stdout, as JSON, how many
connections it was given and how many bytes it has got rid of. KIND:

    random      connections that send bytes by chance
    lengths     the beginning of what was recorded, or zeros, with huge numbers in it
    half        half of what was recorded, and then nothing
    silent      hundreds of connections that say nothing
    replay      all that was recorded, over many connections at once, again and again
    spread      the same, each connection cut off at another byte

The recording is taken from the network (AF_PACKET), so root has to make it; the attack itself may be anybody's.
"""

import argparse
import json
import os
import pickle
import random
import select
import signal
import socket
import struct
import sys
import time

AT_ONCE = 64
SILENT_AT_ONCE = 600
CONNECT_WITHIN_S = 0.5
RECORDED_BYTES_MAX = 8 << 20
KINDS = ("random", "lengths", "half", "silent", "replay", "spread")
HUGE = (0xFFFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x00000000FFFFFFFF, 0xFFFFFFFF00000000, 0x4000000040000000)


# ---- recording ----


class Recorder:
    """What has been sent to each port, by connection. One that was there before is not recorded."""

    def __init__(self):
        self._next = {}  # connection -> number of the byte to come
        self._late = {}  # connection -> {number: bytes}
        self.streams = {}  # connection -> bytes
        self.datagrams = {}  # port -> [bytes]
        self._bytes = 0

    def packet(self, data):
        if len(data) < 20 or data[0] >> 4 != 4:
            return
        internet, total = (data[0] & 15) * 4, struct.unpack_from(">H", data, 2)[0]
        body = data[internet:total] if total else data[internet:]
        if data[9] == socket.IPPROTO_TCP and len(body) >= 20:
            self._segment(data[12:20], body)
        elif data[9] == socket.IPPROTO_UDP and len(body) >= 8:
            kept = self.datagrams.setdefault(struct.unpack_from(">H", body, 2)[0], [])
            if len(kept) < 200:
                kept.append(body[8:])

    def _segment(self, addresses, body):
        source, port, number = struct.unpack_from(">HHI", body)
        flags, payload = body[13], body[(body[12] >> 4) * 4 :]
        connection = (addresses, source, port)
        if flags & 0x12 == 0x02:  # asks for a connection
            if connection not in self._next:
                self._next[connection] = (number + 1) & 0xFFFFFFFF
                self._late[connection] = {}
                self.streams[connection] = bytearray()
            return
        if connection not in self._next or not payload or self._bytes > RECORDED_BYTES_MAX:
            return
        self._late[connection].setdefault(number, payload)
        while True:
            part = self._late[connection].pop(self._next[connection], None)
            if part is None:
                return
            self.streams[connection] += part
            self._bytes += len(part)
            self._next[connection] = (self._next[connection] + len(part)) & 0xFFFFFFFF

    def save(self, path):
        by_port = {}
        for (_, _, port), stream in self.streams.items():
            if stream:
                by_port.setdefault(port, []).append(bytes(stream))
        with open(path + ".new", "wb") as file:
            pickle.dump({"tcp": by_port, "udp": self.datagrams}, file)
        os.rename(path + ".new", path)


def record(path):
    """Whoever wants the file sends SIGUSR1 and waits for it to be new."""
    recorder = Recorder()
    wishes = []
    signal.signal(signal.SIGUSR1, lambda *_: wishes.append("save"))
    signal.signal(signal.SIGTERM, lambda *_: wishes.append("end"))
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003)) as packets:
        packets.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        packets.settimeout(0.05)
        print("recording", flush=True)
        while "end" not in wishes:
            try:
                recorder.packet(packets.recv(1 << 17))
            except (TimeoutError, InterruptedError):
                pass
            if "save" in wishes:
                wishes.remove("save")
                recorder.save(path)
    recorder.save(path)


# ---- attacks ----


class Material:
    """What is said to a door."""

    def __init__(self, recording):
        self._chance = random.Random(os.getpid())
        self._recorded = {"tcp": {}, "udp": {}}
        if recording:
            with open(recording, "rb") as file:
                self._recorded = pickle.load(file)

    def _stream(self, door):
        kind, where = door
        everything = self._recorded.get(kind, {})
        own = everything.get(int(where), []) if kind != "unix" else []
        streams = own or [stream for some in everything.values() for stream in some]
        return self._chance.choice(streams) if streams else bytes(4096)

    def say(self, kind, door):
        """None: nothing, and the connection stays."""
        if kind == "silent":
            return None
        if kind == "random":
            return self._chance.randbytes(self._chance.choice((1, 3, 8, 24, 100, 1000, 65536)))
        stream = self._stream(door)
        if kind == "lengths":
            data = bytearray(stream[: self._chance.choice((16, 64, 200, 2000))].ljust(16, b"\0"))
            for _ in range(self._chance.choice((1, 2, 8))):
                at = self._chance.randrange(0, len(data) - 7, 4)
                struct.pack_into("<Q", data, at, self._chance.choice(HUGE))
            return bytes(data)
        if kind == "half":
            return stream[: self._chance.randrange(1, max(2, min(len(stream), 4096)))]
        if kind == "spread":
            return stream[: self._chance.randrange(1, len(stream) + 1)]
        return stream


class Attack:
    def __init__(self, options, doors):
        self._options = options
        self._doors = doors
        self._material = Material(options.recording)
        self._poll = select.epoll()
        self._open = {}  # descriptor -> [socket, what is left to say, when to give up, whether it is connected]
        self.connections = 0
        self.bytes = 0
        self.refused = 0
        self.turn = 0

    def _address(self, door):
        return (self._options.address, int(door[1])) if door[0] != "unix" else b"\0" + bytes.fromhex(door[1])

    def _datagrams(self, door):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(20):
                data = self._material.say(self._options.kind, door)
                try:
                    self.bytes += sender.sendto((data or b"")[:1400], self._address(door))
                except OSError:
                    self.refused += 1

    def _begin(self):
        self.turn += 1
        door = self._doors[self.turn % len(self._doors)]
        if door[0] == "udp":
            self._datagrams(door)
            return
        family, sort = (socket.AF_INET, socket.SOCK_STREAM) if door[0] == "tcp" else (socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one = socket.socket(family, sort | socket.SOCK_NONBLOCK)
        error = one.connect_ex(self._address(door))
        if error not in (0, 115, 11):
            self.refused += 1
            one.close()
            return
        said = self._material.say(self._options.kind, door)
        self._open[one.fileno()] = [one, said, time.monotonic() + CONNECT_WITHIN_S, False, door[0]]
        self._poll.register(one.fileno(), select.EPOLLOUT)

    def _end(self, fd):
        self._open.pop(fd)[0].close()

    def _stays(self):
        return self._options.kind in ("silent", "half")

    def _go_on(self, fd):
        one, said, _, is_connected, sort = self._open[fd]
        if not is_connected:
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0:
                self.refused += 1
                return self._end(fd)
            self.connections += 1
            self._open[fd][3] = True
        try:
            while said:
                sent = one.send(said[:65536] if sort == "tcp" else said[:4096])
                self.bytes += sent
                said = said[sent:]
        except BlockingIOError:
            self._open[fd][1] = said
            return None
        except OSError:
            return self._end(fd)
        if self._stays():
            self._open[fd][1] = None
            return self._poll.modify(fd, select.EPOLLHUP)
        return self._end(fd)

    def run(self):
        deadline = time.monotonic() + self._options.seconds
        most = SILENT_AT_ONCE if self._options.kind == "silent" else AT_ONCE
        while (now := time.monotonic()) < deadline:
            for _ in range(most - len(self._open)):
                self._begin()
                if self._doors[self.turn % len(self._doors)][0] == "udp":
                    break
            for fd, events in self._poll.poll(0.02):
                if fd in self._open:
                    self._go_on(fd) if events & select.EPOLLOUT else self._end(fd)
            for fd, (_, _, until, is_connected, _) in list(self._open.items()):
                if now > until + (0 if not is_connected else 3) and not (self._stays() and is_connected):
                    self.refused += not is_connected
                    self._end(fd)


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record")
    recorder.add_argument("file")
    attacker = commands.add_parser("attack")
    attacker.add_argument("kind", choices=KINDS)
    attacker.add_argument("address")
    attacker.add_argument("doors")
    attacker.add_argument("--seconds", type=float, default=5)
    attacker.add_argument("--uid", type=int)
    attacker.add_argument("--recording")
    options = parser.parse_args()
    if options.command == "record":
        return record(options.file)
    doors = [tuple(door.split(":", 1)) for door in options.doors.split(",")]
    attack = Attack(options, doors)
    if options.uid is not None:
        os.setgroups([])
        os.setresgid(options.uid, options.uid, options.uid)
        os.setresuid(options.uid, options.uid, options.uid)
    attack.run()
    print(json.dumps({"connections": attack.connections, "bytes": attack.bytes, "refused": attack.refused}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
