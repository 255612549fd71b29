/* Required by OpenSHMEM for extensions in the shmemx_ name space. This library has none there: its own calls are in
 * shmem_ft.h. */
#ifndef SHMEMX_H
#define SHMEMX_H

#include "shmem.h"

#endif
