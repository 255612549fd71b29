/* Fault tolerance for OpenSHMEM programs: the calls beside the standard ones.
 *
 * A program keeps its state where OpenSHMEM keeps it anyway, in symmetric memory (the symmetric heap and the
 * globals of the executable). shmem_checkpoint_all saves that state where the death of the PE does not reach; when PEs
 * die, sleeping spares take their numbers and memory, and the survivors roll back in place.
 *
 * Threads: shmem_checkpoint_all and shmem_restart_pes are called by one thread of a PE, whichever, while its other
 * threads are in no OpenSHMEM routine and store nothing to symmetric memory. When a PE dies, threads that wait for
 * others come back from their calls, each on its own; so they can be brought to rest before the recovery. Local calls
 * may be made by any thread at any time, except that what a substitute repeats before it joins is done by one thread,
 * in the same order in every run: the calls before the first checkpoint that bring data, decisions, memory or handles.
 * These give a substitute what they gave to the PE that it replaces. */
#ifndef SHMEM_FT_H
#define SHMEM_FT_H

#include <setjmp.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this library: of the header that a program is compiled with. SHMEM_FT_VERSION grows with every
 * release: 200 is 0.2.0. What a program runs with says SHMEM_VERSION=1 in the environment, or shmem-ft info. */
#define SHMEM_FT_VERSION_MAJOR 0
#define SHMEM_FT_VERSION_MINOR 1
#define SHMEM_FT_VERSION_PATCH 0
#define SHMEM_FT_VERSION (SHMEM_FT_VERSION_MAJOR * 10000 + SHMEM_FT_VERSION_MINOR * 100 + SHMEM_FT_VERSION_PATCH)
#define SHMEM_FT_VERSION_STRING "0.1.0"

/* Results of checkpoints. Errors that are no fault are negative. */
#define SHMEM_FT_SUCCESS 0
#define SHMEM_FT_FAILURE 1
#define SHMEM_FT_PENDING 2                /* shmem_ft_checkpoint_test only: not committed yet */
#define SHMEM_FT_ERROR_OUT_OF_MEMORY (-1) /* no memory for the copies; the last version stays valid */
#define SHMEM_FT_ERROR_NOT_INITIALIZED (-2)

/* Why a PE failed: what shmem_ft_status_kind gives for a status from shmem_query_fault. */
#define SHMEM_FT_KILLED_BY_SIGNAL 1
#define SHMEM_FT_EXITED 2 /* ended without shmem_finalize */
#define SHMEM_FT_HUNG 3
#define SHMEM_FT_NODE_LOST 4
#define SHMEM_FT_UNREACHABLE 5
#define SHMEM_FT_DIED 6      /* the system did not tell how */
#define SHMEM_FT_RESTARTED 7 /* with all others: the job goes on from a stored version (oshrun --restart) */

/* A global marked with this attribute is neither saved nor rolled back:
 *     static FILE *log_file SHMEM_FT_PRIVATE;
 */
#define SHMEM_FT_PRIVATE __attribute__((section("shmem_ft_private")))

/* A status check is the moment in which the PEs agree on who has failed. There are two: a checkpoint
 * (shmem_checkpoint_all and shmem_ft_checkpoint_nb, _wait, _test) when it returns SHMEM_FT_FAILURE, and a jump to a
 * rollback point. shmem_query_fault tells what the last one has found. */

/* Collective over all PEs. Completes outstanding operations, then commits the symmetric memory of all PEs as the
 * next version and returns SHMEM_FT_SUCCESS, or, if a PE is known to have failed since the last recovery, copies
 * nothing and returns SHMEM_FT_FAILURE: that is a status check. Without memory for the copies it is a barrier and
 * returns SHMEM_FT_ERROR_OUT_OF_MEMORY. Every surviving PE returns the same value. With SHMEM_FT_INTERVAL only some
 * calls make a version; the others are barriers and return SHMEM_FT_SUCCESS, or SHMEM_FT_FAILURE where a failure is
 * known. */
int shmem_checkpoint_all(void);

/* Collective over all PEs. Begins the next version and returns SHMEM_FT_SUCCESS as soon as each PE has copied
 * once what has changed there: the version is the symmetric memory as it was at this call. The rest of the copies,
 * agreeing and committing go on in the background, while the program computes, communicates and allocates as it likes.
 * With SHMEM_FT_BACKGROUND=protect, on one node, the heap is copied behind the call, too: until then system calls
 * cannot write there (EFAULT), and no thread that does may block SIGSEGV. What was begun counts when it is committed:
 * shmem_ft_checkpoint_wait and _test tell. A PE that fails before that takes the job back to the version before. Any
 * collective call of this file, and shmem_finalize, waits for it first; the next shmem_ft_checkpoint_nb as well, so at
 * most one is under way.
 *
 * As shmem_checkpoint_all in everything else: completes outstanding operations, is a barrier, and returns
 * SHMEM_FT_FAILURE, as a status check, if a PE has failed, also while the version before was made. Between nodes it
 * costs the memory of one more copy of the state, from the first use on. Made in the call itself, as by
 * shmem_checkpoint_all: the first version, and all with parity (SHMEM_FT_BACKUP_MODE=xor or rs). Example:
 * shmem_ft_checkpoint_nb(3). */
int shmem_ft_checkpoint_nb(void);

/* Local. Waits until what shmem_ft_checkpoint_nb has begun last is committed, and returns SHMEM_FT_SUCCESS, or
 * SHMEM_FT_FAILURE, as a status check, if a PE has failed before. Nothing was begun: SHMEM_FT_SUCCESS, unless a
 * failure that was met waits for a recovery. */
int shmem_ft_checkpoint_wait(void);

/* Local. The same without waiting: SHMEM_FT_PENDING while it is not known. */
int shmem_ft_checkpoint_test(void);

/* Local, no communication. The agreed list of PEs that had failed at the last status check and are not replaced yet:
 * the same content in the same order on every survivor. The arrays come from malloc, the caller frees them. None
 * failed: *numpes is 0 and both pointers are NULL. */
void shmem_query_fault(int **pes, int **pes_status, size_t *numpes);

/* Collective over survivors and substitutes. Rolls every PE back to the last committed version; spares take the
 * failed PE numbers; redundancy is rebuilt. PEs that die meanwhile are included. If that cannot be done the job
 * ends with one line that names the PEs and the reason. */
void shmem_restart_pes(int *pes, size_t numpes);

/* Collective over survivors and substitutes: shmem_query_fault and shmem_restart_pes in one, for programs that do not
 * look at who has failed. Only after a fault has been met. */
void shmem_ft_recover(void);

/* Local. 1: run the initialisation; 0: this PE is a substitute and what the block would initialise is restored. */
int shmem_ft_algo_init(void);

/* Local. How many further losses of a single PE the job is sure to survive now: the smaller of the spares that are
 * left and the copies that exist of every PE's state besides its own. From outside: shmem-ft status. */
int shmem_ft_protected(void);

/* Local. What this PE does when a call meets a fault, until shmem_finalize. A call meets a fault when it waits for
 * other PEs, or is what programs wait with (barriers, syncs, collectives, wait_until, test, signal_fetch, atomics with
 * a result, locks, quiet, fence, allocation, team splits), and a PE is known dead at its end; when it is a get from a
 * dead PE; and when shmem_checkpoint_all returns SHMEM_FT_FAILURE.
 *
 * - SHMEM_FT_ON_FAULT_RETURN: the call returns; those with an int result return non-zero.
 * - SHMEM_FT_ON_FAULT_CALL: handler(name of the call, context) is called first, by the thread that made the call, so by
 *   several at once if several meet a fault; it must return, and its own calls behave as with RETURN.
 * - SHMEM_FT_ON_FAULT_JUMP, the default: to the last SHMEM_FT_ROLLBACK_POINT() of the same thread; without one, and
 *   inside a parallel region of OpenMP, like RETURN.
 * - SHMEM_FT_ON_FAULT_ABORT: the job ends with one line.
 * - SHMEM_FT_ON_FAULT_THROW: handler(name of the call, context) is called, which leaves by a C++ exception
 *   (shmem_ft.hpp does that), once per fault, in the thread that has chosen this; in other threads, and inside a
 *   parallel region of OpenMP, like RETURN.
 *
 * Returns 0, or non-zero for an unknown action or a missing handler, and then nothing changes. SHMEM_FT_ON_FAULT in the
 * environment is another default. A substitute that has not joined yet only jumps or throws. */
#define SHMEM_FT_ON_FAULT_RETURN 0
#define SHMEM_FT_ON_FAULT_CALL 1
#define SHMEM_FT_ON_FAULT_JUMP 2
#define SHMEM_FT_ON_FAULT_ABORT 3
#define SHMEM_FT_ON_FAULT_THROW 4
typedef void (*shmem_ft_fault_handler_t)(const char *routine, void *context);
int shmem_ft_on_fault(int action, shmem_ft_fault_handler_t handler, void *context);

/* Where SHMEM_FT_ON_FAULT_JUMP goes: 0 when it is passed, 1 when a call that met a fault has jumped here, and 1 at once
 * in a substitute (if calls jump), which so recovers before it looks at anything that it has not got back yet. As with
 * setjmp it stands alone in a condition, the function that has it must not have returned, and automatic variables that
 * were changed since are lost unless they are volatile; in C++ the jump skips destructors. It belongs behind what runs
 * once (allocation, the block of shmem_ft_algo_init), in front of the loop. After a jump the status has been checked,
 * so shmem_query_fault gives the list for shmem_restart_pes. There is one jump per fault and thread: from then on its
 * calls return, until shmem_restart_pes has. A point belongs to the thread that has passed it and goes with it.
 *     if (SHMEM_FT_ROLLBACK_POINT()) { shmem_ft_recover(); }
 *     while (residual > tolerance) { shmem_checkpoint_all(); ... }
 * Nothing jumps out of a parallel region of OpenMP: the jump is taken by the first call behind it that meets the fault.
 * The library cannot know of other code that must not be left by a jump, such as a callback of qsort, of MPI or of a
 * user interface: make no call in there that meets faults. Example: shmem_ft_on_fault(3). */
#define SHMEM_FT_ROLLBACK_POINT() (setjmp(*shmem_ft_rollback_point()) != 0 || shmem_ft_must_recover() != 0)
/* The parts of it that are functions. */
jmp_buf *shmem_ft_rollback_point(void);
int shmem_ft_must_recover(void);

/* Local. With SHMEM_FT_UNREPLACED=handler: when no spare is left to take over failed PEs, the process that leads the
 * job calls its handler with SHMEM_FT_NO_SPARE and the PEs, on a thread of the library, and the job ends or waits for a
 * spare (at most SHMEM_FT_WAIT_TIMEOUT seconds), as the handler returns. When the data of PEs is lost it calls it with
 * SHMEM_FT_DATA_LOST; the job ends then whatever is returned. Any PE may be leading, so register on all of them,
 * straight after shmem_init; where nothing is registered the job ends. The handler calls no routine of OpenSHMEM and is
 * quick: the library hears nothing meanwhile. Returns 0. */
#define SHMEM_FT_NO_SPARE 1
#define SHMEM_FT_DATA_LOST 2
#define SHMEM_FT_UNREPLACED_ABORT 0
#define SHMEM_FT_UNREPLACED_WAIT 1
typedef int (*shmem_ft_unreplaced_handler_t)(int reason, const int *pes, size_t numpes, void *context);
int shmem_ft_on_unreplaced(shmem_ft_unreplaced_handler_t handler, void *context);

/* Local. For state that lies outside of symmetric memory: files, devices, the memory of accelerators. The handler is
 * called on this PE, by the thread that makes the call, and told which version it is:
 *
 * - SHMEM_FT_BEFORE_CHECKPOINT, in shmem_checkpoint_all: this version is going to be made. What the handler stores to
 *   symmetric memory belongs to it. If it is not made after all, because a PE has failed, nothing else is told.
 * - SHMEM_FT_AFTER_CHECKPOINT, in shmem_checkpoint_all: the version is committed.
 * - SHMEM_FT_AFTER_RESTORE, in shmem_restart_pes, on survivors and substitutes: this PE has its memory of the version
 *   back.
 *
 * Several handlers are called in the order in which they were registered, and before a checkpoint in the opposite one.
 * A handler returns 0, or non-zero if it cannot do its part: then the job ends with one line. It makes no calls of
 * OpenSHMEM. Register straight after shmem_init, so that a substitute has registered the same before it is asked;
 * registrations end with shmem_finalize. Calls that make no version (SHMEM_FT_INTERVAL) do not call it.
 * Returns 0, or non-zero without a handler or memory for it. Example: shmem_ft_on_version(3). */
#define SHMEM_FT_BEFORE_CHECKPOINT 1
#define SHMEM_FT_AFTER_CHECKPOINT 2
#define SHMEM_FT_AFTER_RESTORE 3
typedef int (*shmem_ft_version_handler_t)(int event, unsigned long long version, void *context);
int shmem_ft_on_version(shmem_ft_version_handler_t handler, void *context);

/* Collective over all PEs. From now on `bytes` bytes of private memory (on the process's own heap, a SHMEM_FT_PRIVATE
 * variable, a global of a shared library) belong to every version: they are saved with it, and come back when it is
 * gone back to, on survivors and in substitutes. Pass the same size on all PEs; the address may differ, also between a
 * PE and its substitute, which calls this on its way to shmem_restart_pes as its predecessor did. So the contents must
 * mean the same at another address: no pointers into it. It must stay there until shmem_finalize. Takes as much of the
 * symmetric heap. Before the first shmem_checkpoint_all only. Returns, on all PEs alike, SHMEM_FT_SUCCESS,
 * SHMEM_FT_ERROR_OUT_OF_MEMORY if the symmetric heap has no room, SHMEM_FT_FAILURE behind the first version. Example:
 * shmem_ft_include(3). */
int shmem_ft_include(void *memory, size_t bytes);

/* Local. From now on versions do not contain that piece of symmetric memory, on the heap or among the globals: scratch
 * space that is filled anew before it is read. It costs no checkpoint any time, and no copy any room. After a recovery
 * it is filled with zeros, on survivors and in substitutes. Blocks of 16384 bytes that lie wholly in the piece are left
 * out; what is left at its ends is saved. The piece lies inside of one object (one allocation, one variable); what does
 * not ends the job, where that can be told. On the heap it counts until the object is freed or reallocated. Not while
 * another thread is in shmem_checkpoint_all. Returns SHMEM_FT_SUCCESS, or SHMEM_FT_ERROR_OUT_OF_MEMORY if there would
 * be more than 128 pieces: then it is saved as before. Example: shmem_ft_exclude(3). */
int shmem_ft_exclude(const void *memory, size_t bytes);

/* Local. For state that another number of PEs, or another program, can go on with. Says that the `count` elements of
 * `element_bytes` bytes each at `array`, a piece of symmetric memory on this PE, are the elements from `first` on of
 * the array `name` of the whole job. Stored versions (SHMEM_FT_STORE) say so from the next one on. Every PE declares
 * what it has, each name with the same element_bytes; pieces may overlap where they are equal (a step counter that all
 * have is element 0 of all). A piece with the same name and address takes the place of the one before; no elements:
 * nothing is declared. The piece lies inside of one object; what does not ends the job. On the heap it counts until the
 * object is freed or reallocated, and like everything symmetric it goes back with a version. A name has 1 to 39 letters
 * without spaces. Returns SHMEM_FT_SUCCESS, or SHMEM_FT_ERROR_OUT_OF_MEMORY if this PE would have more than 32 pieces.
 * Example: shmem_ft_declare_array(3). */
int shmem_ft_declare_array(const char *name, const void *array, size_t element_bytes, size_t first, size_t count);

/* Local. Brings elements of an array that a job has declared from its stored version, which SHMEM_FT_LOAD names, to
 * `to`, any memory of this PE, wherever they were. They belong into the block of shmem_ft_algo_init. Returns
 * SHMEM_FT_SUCCESS, or SHMEM_FT_FAILURE with one line that says why: no version, no such array, another size, elements
 * that no PE has declared, a damaged file. */
int shmem_ft_load_array(const char *name, void *to, size_t element_bytes, size_t first, size_t count);

/* Local. How many elements the array `name` has in the version that SHMEM_FT_LOAD names: one more than the number of
 * the last one. 0: there is no such array, or SHMEM_FT_LOAD is not set. A version that this PE cannot read ends the
 * job. */
size_t shmem_ft_stored_elements(const char *name);

/* A hint for shmem_malloc_with_hints: as if shmem_ft_exclude were called for all of it. */
#define SHMEM_FT_HINT_SCRATCH (1L << 16)

/* What a status from shmem_query_fault means. */
int shmem_ft_status_kind(int status);      /* SHMEM_FT_KILLED_BY_SIGNAL ... */
int shmem_ft_status_signal(int status);    /* the signal, or 0 */
int shmem_ft_status_exit_code(int status); /* the exit code, or -1 */
/* Writes at most size bytes, NUL-terminated, like "killed by signal 9 (Killed)"; returns buffer. */
char *shmem_ft_status_text(int status, char *buffer, size_t size);

int pshmem_checkpoint_all(void);
int pshmem_ft_checkpoint_nb(void);
int pshmem_ft_checkpoint_wait(void);
int pshmem_ft_checkpoint_test(void);
void pshmem_query_fault(int **pes, int **pes_status, size_t *numpes);
void pshmem_restart_pes(int *pes, size_t numpes);
void pshmem_ft_recover(void);
int pshmem_ft_algo_init(void);
int pshmem_ft_protected(void);
int pshmem_ft_on_fault(int action, shmem_ft_fault_handler_t handler, void *context);
int pshmem_ft_on_unreplaced(shmem_ft_unreplaced_handler_t handler, void *context);
int pshmem_ft_on_version(shmem_ft_version_handler_t handler, void *context);
int pshmem_ft_include(void *memory, size_t bytes);
int pshmem_ft_exclude(const void *memory, size_t bytes);
int pshmem_ft_declare_array(const char *name, const void *array, size_t element_bytes, size_t first, size_t count);
int pshmem_ft_load_array(const char *name, void *to, size_t element_bytes, size_t first, size_t count);
size_t pshmem_ft_stored_elements(const char *name);
jmp_buf *pshmem_ft_rollback_point(void);
int pshmem_ft_must_recover(void);

#ifdef __cplusplus
}
#endif
#endif
