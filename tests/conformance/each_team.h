/* Runs a check on teams of every shape: the predefined ones, with positive and negative strides, rows and columns, and
 * parts of parts. */
#ifndef CONFORMANCE_EACH_TEAM_H
#define CONFORMANCE_EACH_TEAM_H

#include "tests/conformance/check.h"

/* Members run the check, then everybody meets. A team that was split off is destroyed. */
static inline void check_on_team(shmem_team_t team, void (*check)(shmem_team_t team)) {
    if (team != SHMEM_TEAM_INVALID) {
        check(team);
    }
    shmem_barrier_all();
    if (team != SHMEM_TEAM_WORLD && team != SHMEM_TEAM_SHARED) {
        shmem_team_destroy(team);
    }
}

static inline shmem_team_t part_of(shmem_team_t parent, int start, int stride, int size) {
    shmem_team_t team = SHMEM_TEAM_INVALID;
    if (parent != SHMEM_TEAM_INVALID) {
        CHECK(shmem_team_split_strided(parent, start, stride, size, NULL, 0, &team) == 0);
    }
    return team;
}

/* Every team but the world. */
static inline void for_each_team(void (*check)(shmem_team_t team)) {
    const int npes = shmem_n_pes();
    const int half = (npes + 1) / 2;
    check_on_team(SHMEM_TEAM_SHARED, check);
    check_on_team(part_of(SHMEM_TEAM_WORLD, 0, 2, half), check);
    check_on_team(part_of(SHMEM_TEAM_WORLD, npes - 1, -1, npes), check);
    check_on_team(part_of(SHMEM_TEAM_WORLD, npes - 1, npes == 1 ? 0 : -2, half), check);

    shmem_team_t row = SHMEM_TEAM_INVALID, column = SHMEM_TEAM_INVALID;
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 3, NULL, 0, &row, NULL, 0, &column) == 0);
    check_on_team(row, check);
    check_on_team(column, check);

    /* Every other PE, those backwards, of those all but the first. */
    const shmem_team_t even = part_of(SHMEM_TEAM_WORLD, 0, 2, half);
    const shmem_team_t backwards = part_of(even, half - 1, -1, half);
    const int rest = half > 1 ? half - 1 : 1;
    check_on_team(part_of(backwards, half - rest, 1, rest), check);
    shmem_team_destroy(backwards);
    shmem_team_destroy(even);
}

#endif
