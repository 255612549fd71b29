/* What families.c, which lets PEs die, and family_modes.c, which has the calls they die in, know of each other. */
#ifndef TESTS_FAULT_FAMILIES_H
#define TESTS_FAULT_FAMILIES_H

#include "apps/app_support.h"

enum { PES_MAX = 8, SMALL = 5, LARGE = 1500, VARIABLES = 6, ELEMENTS = PES_MAX * LARGE };

/* What a mode is told. turn counts its repetitions while a death is awaited, from 1. */
typedef struct {
    int me;
    int n_pes;
    int victim;
    bool awaits_death; /* somebody is to die in this step; otherwise one turn is all there is */
    long turn;
} Local;

enum {
    MODE_PLAIN = 0,
    MODE_TELLS = 1,       /* nobody gets past the dead PE, and the call has a result that must say so */
    MODE_INSIDE = 2,      /* the victim dies inside the call, and not in front of it */
    MODE_HOLDS_LOCK = 4,  /* the victim dies with the lock, or with the word in its place */
    MODE_NEEDS_LEAVE = 8, /* a loop of calls that tell nothing: it takes a handler or a jump to leave it */
};

typedef struct {
    const char* name;
    const char* routine; /* that meets the fault, NULL if there are several */
    int flags;
    int (*run)(const Local* local); /* 0, or what its call has returned */
} Mode;

/* family_modes.c. NULL: there is no such mode. */
const Mode* mode_named(const char* name);
int mode_number(const Mode* mode);
void print_modes(void);
/* Once, in the block of shmem_ft_algo_init. */
void create_handles(void);
/* In front of a mode: everything as at the start, and numbers that differ for each PE and element. */
void fill(const Mode* mode);
uint64_t hash_of_results(void);
/* With the lock, or the word that stands for it. */
void take_lock(void);
/* True while a fault is pending, or not at all: jumps. */
bool fault_seen(void);

/* family_gets.c */
int get_dead(const Local* local);
int get_one_dead(const Local* local);
int getmem_dead(const Local* local);
int ctx_get_dead(const Local* local);
int g_dead(const Local* local);
int iget_dead(const Local* local);
int ibget_dead(const Local* local);
int get_nbi_dead(const Local* local);

/* families.c: the handler has been called since the last recovery. */
bool was_called(void);
/* The test is over. */
void wrong(const char* what);

#endif
