"""script/demo builds only what it runs, so that a newcomer does not wait for the rest."""

import os
import re
import subprocess
import unittest

BUILD = os.environ["SFT_BUILD_DIR"]
SOURCE = os.environ["SFT_SOURCE_DIR"]


def targets_of_demo():
    with open(os.path.join(SOURCE, "script", "build"), encoding="utf-8") as file:
        (words,) = re.findall(r"^ +targets=\((.+)\)$", file.read(), re.M)
    return words.split()


def sources_in(compiled):
    """With -Dunity=on Meson writes files that include several sources each."""
    path = os.path.join(BUILD, compiled)
    if not re.search(r"-unity\d+\.\w+$", compiled) or not os.path.exists(path):
        return [compiled]
    with open(path, encoding="utf-8") as file:
        return re.findall(r"^#include\s*[<\"](.+)[>\"]", file.read(), re.M)


class DemoBuild(unittest.TestCase):
    def test_only_what_is_needed(self):
        commands = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", *targets_of_demo()], check=True,
                                  capture_output=True, text=True).stdout.splitlines()
        compiled = [found[1] for line in commands if (found := re.search(r" -c (\S+)$", line))]
        sources = [source for file in compiled for source in sources_in(file)]
        kinds = {"library": "/shmem_ft/api/amo.cpp", "oshrun": "/tools/oshrun/main.cpp", "program": "/apps/jacobi1d.c"}
        for kind, source in kinds.items():
            self.assertTrue(any(("/" + item).endswith(source) for item in sources), kind)
        for folder in ("/tests/", "/benchmarks/", "/tools/shmem-ft/", "/transport/ucx/", "/transport/ofi/"):
            self.assertEqual([item for item in sources if folder in "/" + item], [], folder)


if __name__ == "__main__":
    unittest.main()
