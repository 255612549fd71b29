"""Arrays that a program has declared, and that other jobs load from stored versions: cases of jobs_test.py."""

import os
import re
import shutil
import subprocess

from jobs_bench import LOST, PYTHON, TIMEOUT_S, UNHURRIED, check, check_refused, check_right, results


def regrouped(bench):
    """Declared arrays go on with other numbers of PEs and in another program, time and again, and are told by the tool."""
    expected = results(bench.run("-n", "3", ["regrouped"]))
    check(expected and results(bench.run("-n", "4", ["regrouped_other"])) == expected, f"the programs differ: {expected}")
    lost = bench.run("-n", "3", ["regrouped", *UNHURRIED], SHMEM_FT_FAULTS=LOST, **bench.store())
    check(lost.returncode != 0 and bench.complete(), "nothing was stored", lost)
    first = bench.folder
    load = {"SHMEM_FT_LOAD": first}
    for shape, program in (("3", "regrouped"), ("1", "regrouped"), ("5", "regrouped"), ("4", "regrouped_other")):
        outcome = bench.run("-n", shape, [program], **load)
        check_right(outcome, expected)
        check(re.search(r"regrouped: goes on from step [1-9]", outcome.stderr), "it has begun anew", outcome)
    deaths = "kill pe 1 at replicate_end visit 3; kill pe 0 at checkpoint_enter visit 8"
    check_right(bench.run("-n", "2", "--spares", "2", ["regrouped"], SHMEM_FT_FAULTS=deaths, **load), expected)
    check_right(bench.run("--restart", first, ["regrouped"], SHMEM_FT_STORE=""), expected)
    check_refused(bench.run("--restart", first, "-n", "4", ["regrouped"]),
                  r"was stored by 3 PEs: -n 3 instead of -n 4, or load its arrays \(SHMEM_FT_LOAD instead of --restart\)")
    whole_array(bench, bench.version(bench.complete()[-1]))
    try:
        bench.folder = first + "-second"
        words = ["regrouped_other", *UNHURRIED]
        bench.run("-n", "2", words, SHMEM_FT_FAULTS=LOST, **bench.store(SHMEM_FT_STORE_COMPRESSION="lz4", **load))
        outcome = bench.run("-n", "5", ["regrouped"], SHMEM_FT_LOAD=bench.version(bench.complete()[-1]))
        check_right(outcome, expected)
        step = int(re.search(r"goes on from step (\d+)", outcome.stderr)[1])
        check(step > bench.complete()[-1], f"step {step} is not what the second job has come to", outcome)
    finally:
        shutil.rmtree(bench.folder, ignore_errors=True)
        bench.folder = first


def regrouped_in_python(bench):
    """Rows of NumPy arrays. With a sanitizer the library needs a program that has it."""
    if os.environ.get("SFT_SANITIZE", "none") != "none":
        return
    heat = [PYTHON, "heat.py", "--steps", "300", "--verify"]
    expected = results(bench.run("-n", "3", heat))
    bench.run("-n", "3", [*heat, "--pace", "20"], SHMEM_FT_FAULTS=LOST, **bench.store())
    check(bench.complete(), "nothing was stored")
    for pes in ("2", "5"):
        outcome = bench.run("-n", pes, heat, SHMEM_FT_LOAD=bench.folder)
        check_right(outcome, expected)
        check("verified: bit-identical" in outcome.stdout, "not verified", outcome)
    deaths = "kill pe 1 at checkpoint_enter visit 3"
    check_right(bench.run("-n", "2", "--spares", "1", heat, SHMEM_FT_FAULTS=deaths, SHMEM_FT_LOAD=bench.folder), expected)
    wrong = bench.run("-n", "2", [*heat, "--rows", "65"], SHMEM_FT_LOAD=bench.folder)
    check(wrong.returncode != 0 and "not a plate of 65 rows is stored" in wrong.stderr, "another plate was taken", wrong)


def whole_array(bench, version):
    shown = bench.shmem_ft("show", version).stdout
    check(re.search(r"array cells +50021 elements of 8 bytes, in 3 pieces", shown), shown)
    output = version + ".npy"
    for words, n_bytes in ((("--type", "<u8"), 8 * 50021 + 128), ((), 8 * 50021)):
        done = bench.shmem_ft("extract", version, "--array", "cells", *words, "--output", output)
        check(done.returncode == 0 and os.path.getsize(output) == n_bytes, "an array was not extracted", done)
    with open(output, "rb") as file:
        cells = file.read()
    parts = []
    for pe in range(3):
        done = bench.shmem_ft("extract", version, "--pe", str(pe), "--array", "cells", "--output", output)
        check(done.returncode == 0, "a piece was not extracted", done)
        with open(output, "rb") as file:
            parts.append(file.read())
    wrong = bench.shmem_ft("extract", version, "--array", "none", "--output", output)
    check_refused(wrong, "--array none: no array of that name was declared")
    os.remove(output)
    check(b"".join(parts) == cells and len(set(parts)) == 3, "the pieces are not the whole")


def declared_meanwhile(bench):
    """What is declared while a version is made is not of that version, however late that is committed."""
    outcome = bench.run("-n", "2", ["meanwhile"], SHMEM_FT_FAULTS="delay 200 ms pe any at background_begin", **bench.store())
    check(outcome.returncode == 3 and bench.complete() == [2, 4], f"versions {bench.complete()} were stored", outcome)
    for number, names in ((2, {"early"}), (4, {"early", "late"})):
        shown = bench.shmem_ft("show", bench.version(number))
        found = set(re.findall(r"array (\w+) +200 elements of 8 bytes", shown.stdout))
        check(found == names, f"version {number} has {found}", shown)


def not_to_be_loaded(bench):
    """Whatever is wrong with a version or a call has its line, and nothing is taken for good."""
    check_refused(bench.run("-n", "2", ["regrouped"], SHMEM_FT_LOAD=bench.folder), "SHMEM_FT_LOAD: .*No such file or directory")
    os.makedirs(bench.folder)
    check_refused(bench.run("-n", "2", ["regrouped"], SHMEM_FT_LOAD=bench.folder),
                  f"SHMEM_FT_LOAD: {bench.folder}: no complete version is in there")
    bench.run("-n", "3", ["regrouped", *UNHURRIED], SHMEM_FT_FAULTS=LOST, **bench.store())
    version = bench.version(bench.complete()[-1])
    load = {"SHMEM_FT_LOAD": version}
    path = os.path.join(version, "pe-00002.state")
    manifest = os.path.join(version, "manifest.toml")
    with open(manifest, encoding="utf-8") as file:
        text = file.read()
    with open(path, "r+b") as file:
        data = file.read()
        heap_address, _, heap_offset = (int.from_bytes(data[at:at + 8], "little") for at in (32, 40, 48))
        place = int(re.search(r"\[2, \d+, \d+, (0x[0-9a-f]+)\]", text)[1], 16) - heap_address + heap_offset
        file.seek(place)
        file.write(bytes([data[place] ^ 1]))
    unseen = subprocess.run([bench.oshrun, "-n", "2", "sh", "-c", 'test "$PMIX_RANK" = 0 || SHMEM_FT_LOAD=/nowhere/version-00000004; exec "$0"',
                             os.path.join(bench.programs, "tests/fault/regrouped")], env=bench.environment(load),
                            capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    check_refused(unseen, "PE 1: SHMEM_FT_LOAD: /nowhere/version-00000004/manifest.toml: there is none")
    outcome = bench.run("-n", "2", ["regrouped"], **load)
    check(outcome.returncode == 3, f"exit code {outcome.returncode}", outcome)
    check(re.search(rf'warning: shmem_ft_load_array\("cells"\): {path}: block \d+ of the heap does not fit its checksum',
                    outcome.stderr), "no line names the block", outcome)
    with open(path, "r+b") as file:
        file.write(data)
        file.seek(200)
        file.write(b"x")
    outcome = bench.run("-n", "2", ["regrouped"], **load)
    check_right(outcome, results(bench.run("-n", "2", ["regrouped"])))  # the manifest has it as well
    check_refused(bench.shmem_ft("verify", version), f"{path}: its list of arrays does not fit its checksum")
    for before, after, line in (
            ("element_bytes = 8", "element_bytes = 0", r"manifest.toml:\d+: cells: not an array with element_bytes and pieces"),
            ("[2, ", "[3, ", r"manifest.toml:\d+: cells: not a PE, its first element"),
            ("layout = 4", "layout = 3", "layout 3: this library reads layout 4")):
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(text.replace(before, after, 1))
        check_refused(bench.run("-n", "2", ["regrouped"], **load), "SHMEM_FT_LOAD: .*" + line)
