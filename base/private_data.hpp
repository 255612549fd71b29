// The executable's globals are saved in a checkpoint and written back at a rollback. When the library is
// linked statically its own globals lie among them, so each of them must be put where neither happens.
// A test lists the symbols of the static library and fails on a writable one outside this section.
#pragma once

#define SFT_LIBRARY_STATE __attribute__((section("shmem_ft_private")))
