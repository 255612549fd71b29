"""Small programs about the headers, for interface_test.py."""

import itertools
import re

HEADERS = ["shmem.h", "shmemx.h", "pshmem.h", "shmem_ft.h", "mpp/shmem.h", "mpp/shmemx.h"]

# What the specification lists: integers that are constant expressions ...
INTEGERS = """
    SHMEM_THREAD_SINGLE SHMEM_THREAD_FUNNELED SHMEM_THREAD_SERIALIZED SHMEM_THREAD_MULTIPLE
    SHMEM_TEAM_NUM_CONTEXTS SHMEM_CTX_SERIALIZED SHMEM_CTX_PRIVATE SHMEM_CTX_NOSTORE
    SHMEM_CTX_SESSION_TOTAL_OPS SHMEM_CTX_SESSION_BATCH SHMEM_SIGNAL_SET SHMEM_SIGNAL_ADD
    SHMEM_MALLOC_ATOMICS_REMOTE SHMEM_MALLOC_SIGNAL_REMOTE
    SHMEM_MAJOR_VERSION SHMEM_MINOR_VERSION SHMEM_MAX_NAME_LEN
    SHMEM_CMP_EQ SHMEM_CMP_NE SHMEM_CMP_LT SHMEM_CMP_LE SHMEM_CMP_GT SHMEM_CMP_GE
    SHMEM_SYNC_VALUE SHMEM_SYNC_SIZE SHMEM_BARRIER_SYNC_SIZE SHMEM_BCAST_SYNC_SIZE SHMEM_COLLECT_SYNC_SIZE
    SHMEM_REDUCE_SYNC_SIZE SHMEM_ALLTOALL_SYNC_SIZE SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE
""".split()
# ... the old names of some, and which of them must differ from each other.
OLD = """
    SYNC_VALUE BARRIER_SYNC_SIZE BCAST_SYNC_SIZE COLLECT_SYNC_SIZE REDUCE_SYNC_SIZE REDUCE_MIN_WRKDATA_SIZE
    MAJOR_VERSION MINOR_VERSION MAX_NAME_LEN CMP_EQ CMP_NE CMP_LT CMP_LE CMP_GT CMP_GE
""".split()
DISTINCT = [
    [name for name in INTEGERS if "_CMP_" in name],
    ["SHMEM_SIGNAL_SET", "SHMEM_SIGNAL_ADD"],
    ["SHMEM_MALLOC_ATOMICS_REMOTE", "SHMEM_MALLOC_SIGNAL_REMOTE"],
]
# Bits that are combined.
BITS = [
    ["SHMEM_CTX_SERIALIZED", "SHMEM_CTX_PRIVATE", "SHMEM_CTX_NOSTORE"],
    ["SHMEM_MALLOC_ATOMICS_REMOTE", "SHMEM_MALLOC_SIGNAL_REMOTE"],
]


def including(*headers):
    return "".join(f"#include <{header}>\n" for header in headers) + "int here;\n"


def alone():
    return [including(header) for header in HEADERS]


def together():
    """In both orders, and each twice."""
    return [including(*HEADERS, *HEADERS), including(*reversed(HEADERS))]


def all_inclusions():
    return alone() + together()


def in_extern_c(text):
    return f'extern "C" {{\n{text}}}\n'


def declared(lines):
    """Declarations whose names are in parentheses."""
    return "\n".join(re.sub(r"^(.*?)(\w+)\(", r"\1(\2)(", line) for line in lines) + "\n"


def prototypes(lines):
    return including("shmem.h") + declared(lines) + "#include <pshmem.h>\n" + declared(profiling(lines))


def profiling(lines):
    return [re.sub(r"^(.*?)(\w+)\(", r"\1p\2(", line) for line in lines]


def prototypes_for_cxx(lines):
    """In C++ the complex types are those of the library."""
    lines = [re.sub(r"(double|float) _Complex", r"std::complex<\1>", line) for line in lines]
    return including("pshmem.h") + in_extern_c(declared(lines) + declared(profiling(lines)))


def constants():
    """Every constant where a constant is needed, every handle in an initialiser."""
    assertions = [f"{name} >= 0 || {name} < 0" for name in INTEGERS]
    assertions += [f"_SHMEM_{name} == SHMEM_{name}" for name in OLD]
    assertions += [f"{a} != {b}" for names in DISTINCT for a, b in itertools.combinations(names, 2)]
    assertions += [f"({a} & {b}) == 0" for names in BITS for a, b in itertools.combinations(names, 2)]
    assertions += [f"{a} < {b}" for a, b in zip(INTEGERS[:3], INTEGERS[1:4])]
    assertions += ["SHMEM_MAJOR_VERSION == 1 && SHMEM_MINOR_VERSION == 6"]
    assertions += ["sizeof(SHMEM_VENDOR_STRING) <= SHMEM_MAX_NAME_LEN"]
    assertions += ["sizeof(_SHMEM_VENDOR_STRING) == sizeof(SHMEM_VENDOR_STRING)"]
    assertions += [f"SHMEM_SYNC_SIZE >= {name}" for name in INTEGERS if name.endswith("_SYNC_SIZE")]
    cases = "".join(f"        case {name}: return 1;\n" for name in DISTINCT[0])
    return (
        including("shmem.h")
        + "#ifdef __cplusplus\n#define ASSERT(x) static_assert(x, #x)\n"
        + "#else\n#define ASSERT(x) _Static_assert(x, #x)\n#endif\n"
        + "".join(f"ASSERT({text});\n" for text in assertions)
        + "shmem_team_t teams[] = {SHMEM_TEAM_WORLD, SHMEM_TEAM_SHARED, SHMEM_TEAM_INVALID};\n"
        + "shmem_ctx_t contexts[] = {SHMEM_CTX_DEFAULT, SHMEM_CTX_INVALID};\n"
        + "shmem_team_config_t config = {3};\nshmem_ctx_session_config_t session = {SIZE_MAX};\n"
        + "long words[SHMEM_SYNC_SIZE];\nint compare(int cmp);\n"
        + f"int compare(int cmp) {{\n    switch (cmp) {{\n{cases}    }}\n    return teams[0] == teams[1];\n}}\n"
    )
