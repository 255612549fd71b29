"""The system calls that Python 3.11 does not offer: namespaces, mounts, and what a process leaves behind."""

import ctypes
import os

NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000
ALL_OF_A_HOST = NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET

MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 0x1000, 0x2000, 0x4000, 0x40000
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags):
    _check(_libc.unshare(flags), "unshare")


def setns(fd, flags):
    """Enters the namespaces of a pidfd's process. As with fork, a process namespace holds from the next child on."""
    _check(_libc.setns(fd, flags), "setns")


def sethostname(name):
    _check(_libc.sethostname(name.encode(), len(name.encode())), "sethostname")


def mount(source, target, kind=None, flags=0, options=None):
    def text(value):
        return None if value is None else os.fsencode(value)

    _check(
        _libc.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(options)), f"mount on {target}"
    )


def die_with_parent(signal_number):
    """The kernel sends this signal when the thread that forked this process ends."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal_number), 0, 0, 0), "prctl")


def set_process_name(name):
    _check(_libc.prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0), "prctl")


def adopt_orphans():
    """From now on all descendants of this process whose parent ends become its children."""
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0), "prctl")
