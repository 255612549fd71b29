#!/usr/bin/python3
"""A heat equation on a plate, in Python, that survives the death of its PEs.

    oshrun -n 4 --spares 1 /usr/bin/python3 apps/heat.py --verify

The rows of the plate are split over the PEs. In every step each inner cell becomes the average of its four neighbours;
the edge of the plate keeps its temperature. A PE holds its rows and one more on either side, which its neighbours put
there after each step.

What survives is what lies in the symmetric heap: the two plates, the number of steps done and the digest of the result
are NumPy arrays over memory from shmem_calloc; and one array of the interpreter's own, which shmem_ft_include adds.
Everything else (the interpreter, its objects, local variables) is private: a rollback leaves it alone, and a substitute
builds its own on its way through this file. The calls are those of C, by ctypes (docs/python.md).

The rows and the step are declared as arrays of the job, so what was stored (SHMEM_FT_STORE) another number of PEs can go on
with:

    SHMEM_FT_LOAD=/scratch/run7 oshrun -n 6 /usr/bin/python3 apps/heat.py
"""

import argparse
import ctypes
import hashlib
import signal
import sys
import time

import numpy


class Shmem:
    """The calls of OpenSHMEM that this program makes."""

    PROTOTYPES = {
        "shmem_init": (None, []),
        "shmem_finalize": (None, []),
        "shmem_my_pe": (ctypes.c_int, []),
        "shmem_n_pes": (ctypes.c_int, []),
        "shmem_calloc": (ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]),
        "shmem_putmem": (None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]),
        "shmem_getmem": (None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]),
        "shmem_barrier_all": (None, []),
        "shmem_ft_algo_init": (ctypes.c_int, []),
        "shmem_ft_include": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t]),
        "shmem_ft_declare_array": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_void_p] + 3 * [ctypes.c_size_t]),
        "shmem_ft_load_array": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_void_p] + 3 * [ctypes.c_size_t]),
        "shmem_ft_stored_elements": (ctypes.c_size_t, [ctypes.c_char_p]),
        "shmem_checkpoint_all": (ctypes.c_int, []),
        "shmem_query_fault": (None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
        "shmem_restart_pes": (None, [ctypes.c_void_p, ctypes.c_size_t]),
    }

    def __init__(self, library):
        functions = ctypes.CDLL(library)
        for name, (result, arguments) in self.PROTOTYPES.items():
            function = getattr(functions, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("shmem_"), function)
        self._free = ctypes.CDLL(None).free
        self._free.argtypes = [ctypes.c_void_p]

    def array(self, shape, dtype):
        """A NumPy array of zeros in the symmetric heap. Collective, with the same arguments on all PEs."""
        bytes_needed = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
        address = self.calloc(bytes_needed, 1)
        if not address:
            sys.exit(f"heat: error: no symmetric memory for {bytes_needed} bytes: raise SHMEM_SYMMETRIC_SIZE")
        block = (ctypes.c_char * bytes_needed).from_address(address)
        return numpy.frombuffer(block, dtype).reshape(shape)

    def put(self, dest, source, pe):
        """dest: an array in the symmetric heap, which means that of the PE; source: any contiguous array."""
        self.putmem(dest.ctypes.data, source.ctypes.data, source.nbytes, pe)

    def get(self, dest, source, pe):
        self.getmem(dest.ctypes.data, source.ctypes.data, dest.nbytes, pe)

    def declare(self, name, rows, first):
        """Rows of an array of the whole job, of which this PE has some: its elements."""
        if self.ft_declare_array(name.encode(), rows.ctypes.data, rows.strides[0], first, len(rows)) != 0:
            sys.exit(f"heat: error: the array {name} cannot be declared")

    def load(self, name, rows, first):
        """The same rows, from what was stored."""
        if self.ft_load_array(name.encode(), rows.ctypes.data, rows.strides[0], first, len(rows)) != 0:
            sys.exit(f"heat: error: PE {self.my_pe()} cannot load the array {name}")

    def recover(self):
        """After a checkpoint that has failed: all PEs go back to the last one that has not."""
        pes, statuses, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        self.query_fault(ctypes.byref(pes), ctypes.byref(statuses), ctypes.byref(count))
        self.restart_pes(pes, count)
        self._free(pes)
        self._free(statuses)


def rows_of(rows, n_pes, pe):
    """The first row of a PE and the one behind its last."""
    return rows * pe // n_pes, rows * (pe + 1) // n_pes


def initial_rows(options, first, last):
    row, column = numpy.mgrid[first:last, 0:options.columns]
    return ((row * 7919 + column * 104729 + options.seed) % 1000).astype(float)


def next_rows(now):
    """The inner cells of all rows of `now` but the first and the last."""
    return (now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]) * 0.25


def compute_serially(options, first, last):
    """The plate at the end, and the highest temperature in these rows after each step."""
    now = initial_rows(options, 0, options.rows)
    hottest = numpy.zeros(options.steps)
    for step in range(options.steps):
        following = now.copy()
        following[1:-1, 1:-1] = next_rows(now)
        now = following
        hottest[step] = now[first:last].max()
    return now, hottest


class Plate:
    """This PE's part of the plate: row 0 and the last one are the neighbours'."""

    def __init__(self, shmem, options):
        self.shmem, self.options = shmem, options
        self.me, self.n_pes = shmem.my_pe(), shmem.n_pes()
        self.first, self.last = rows_of(options.rows, self.n_pes, self.me)
        self.count = self.last - self.first
        most = -(-options.rows // self.n_pes)  # the same on every PE: memory is symmetric
        self.cells = shmem.array((2, most + 2, options.columns), float)
        self.step = shmem.array(1, numpy.int64)
        self.begin = shmem.array(1, numpy.int64)  # the step that this job has begun with
        for name, cells in zip(("even", "odd"), self.cells):
            shmem.declare(name, cells[1:self.count + 1], self.first)
        shmem.declare("step", self.step, 0)
        self.digest = shmem.array(32, numpy.uint8)
        self.hottest = numpy.zeros(options.steps)  # here, after each step
        if shmem.ft_include(self.hottest.ctypes.data, self.hottest.nbytes) != 0:
            sys.exit("heat: error: no symmetric memory for the history: raise SHMEM_SYMMETRIC_SIZE")

    def now(self):
        return self.cells[self.step[0] % 2]

    def initialise(self):
        for cells in self.cells:
            cells[1:self.count + 1] = initial_rows(self.options, self.first, self.last)
        if self.me > 0:
            self.cells[0][0] = initial_rows(self.options, self.first - 1, self.first)
        if self.me < self.n_pes - 1:
            self.cells[0][self.count + 1] = initial_rows(self.options, self.last, self.last + 1)

    def load(self):
        """From a stored version, of whatever number of PEs, with a row more on either side."""
        first, last = max(self.first - 1, 0), min(self.last + 1, self.options.rows)
        if self.shmem.ft_stored_elements(b"even") != self.options.rows:
            sys.exit(f"heat: error: not a plate of {self.options.rows} rows is stored")
        for name, cells in zip(("even", "odd"), self.cells):
            self.shmem.load(name, cells[1 - (self.first - first):1 + last - self.first], first)
        self.shmem.load("step", self.step, 0)
        self.begin[:] = self.step

    def advance(self):
        now, following = self.now(), self.cells[(self.step[0] + 1) % 2]
        top = 1 + (self.me == 0)  # the first row that changes, and the one behind the last
        bottom = self.count + 1 - (self.me == self.n_pes - 1)
        if top < bottom:
            following[top:bottom, 1:-1] = next_rows(now[top - 1:bottom + 1])
        if self.me > 0:
            first, last = rows_of(self.options.rows, self.n_pes, self.me - 1)
            self.shmem.put(following[last - first + 1], following[1], self.me - 1)
        if self.me < self.n_pes - 1:
            self.shmem.put(following[0], following[self.count], self.me + 1)
        self.hottest[self.step[0]] += following[1:self.count + 1].max()
        self.shmem.barrier_all()
        self.step[0] += 1

    def collect(self):
        """All rows, in private memory."""
        whole = numpy.empty((self.options.rows, self.options.columns))
        for pe in range(self.n_pes):
            first, last = rows_of(self.options.rows, self.n_pes, pe)
            self.shmem.get(whole[first:last], self.now()[1:], pe)
        return whole

    def make_digest(self):
        """By PE 0 before the last checkpoint, so that a death meanwhile is repaired like any other."""
        if self.me == 0:
            self.digest[:] = numpy.frombuffer(hashlib.sha256(self.collect().tobytes()).digest(), numpy.uint8)


def read_options():
    parser = argparse.ArgumentParser(description="a heat equation in Python that survives the death of its PEs")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--interval", type=int, default=10, help="steps from one checkpoint to the next")
    parser.add_argument("--seed", type=int, default=1, help="of the initial temperatures")
    parser.add_argument("--pace", type=float, default=0, help="milliseconds to idle per interval, to watch it")
    parser.add_argument("--verify", action="store_true", help="compare with a serial run, bit for bit")
    parser.add_argument("--library", default="libshmem_ft.so", help="the library's file, if the system does not find it")
    return parser.parse_args()


def compute(shmem, plate, options):
    while True:
        if shmem.checkpoint_all() != 0:
            shmem.recover()
        elif plate.step[0] == options.steps:
            return  # the checkpoint just taken holds the last step and the digest
        else:
            for _ in range(min(options.interval, options.steps - plate.step[0])):
                plate.advance()
            time.sleep(options.pace / 1000)
            if plate.step[0] == options.steps:
                plate.make_digest()


def verify(plate, options, digest):
    whole, hottest = compute_serially(options, plate.first, plate.last)
    begin = plate.begin[0]  # the history before is that of other PEs
    if not numpy.array_equal(hottest[begin:], plate.hottest[begin:]):
        print(f"heat: error: the history of PE {plate.me} differs from a serial run")
        return 1
    is_same = plate.me != 0 or hashlib.sha256(whole.tobytes()).digest() == digest
    if plate.me == 0:
        print("verified: bit-identical to a serial run" if is_same else "heat: error: differs from a serial run")
    return 0 if is_same else 1


def main():
    options = read_options()
    signal.signal(signal.SIGUSR2, lambda *_: sys.exit(3))  # one more way to die, for tests
    shmem = Shmem(options.library)
    shmem.init()  # spares sleep in here until they are needed
    plate = Plate(shmem, options)
    if options.rows < plate.n_pes:
        shmem.finalize()
        sys.exit(f"heat: error: --rows {options.rows}: {plate.n_pes} PEs need a row each" if plate.me == 0 else 1)
    if shmem.ft_algo_init():  # not in a substitute: it gets what the dead PE had
        if shmem.ft_stored_elements(b"step") != 0:  # SHMEM_FT_LOAD
            plate.load()
        else:
            plate.initialise()
    compute(shmem, plate, options)
    digest = plate.digest.tobytes()
    if plate.me == 0:
        print(f"heat: {plate.n_pes} PEs, {options.rows} x {options.columns} cells, {options.steps} steps")
        print(f"result {digest.hex()[:32]}")
    exit_code = verify(plate, options, digest) if options.verify else 0
    sys.stdout.flush()
    shmem.finalize()
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
