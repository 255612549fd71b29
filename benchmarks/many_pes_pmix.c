/* What any program of a PMIx job costs: PMIx_Init, a fence, PMIx_Finalize. For many_pes.py. */
#include <pmix.h>
#include <stdio.h>

int main(void) {
    pmix_proc_t self;
    if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS || PMIx_Fence(NULL, 0, NULL, 0) != PMIX_SUCCESS) {
        fprintf(stderr, "many_pes_pmix: error: no PMIx job\n");
        return 1;
    }
    return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 1;
}
