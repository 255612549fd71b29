/* Looks at the vector registers before and behind every call of the library; see observer.c. The wrappers that
 * write_wrappers.py makes include it. */
#ifndef TESTS_REGISTERS_OBSERVER_H
#define TESTS_REGISTERS_OBSERVER_H

#include <stddef.h>

/* The routines, in the order of their numbers. */
extern const char* const observed_names[];
extern const size_t observed_count;

void observe_call(size_t routine);
void observe_return(size_t routine);

/* The library's own routine of that name. */
void* observed_routine(const char* name);

#endif
