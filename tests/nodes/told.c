// PE 0 is told by PMIx, at each SIGUSR1, that the last process of the job has failed: by an event that does not leave
// its process, where a launcher's would arrive too. SIGUSR2 ends the job.
#include <pmix.h>
#include <shmem.h>
#include <signal.h>
#include <stdio.h>

static void require(int holds, const char* what) {
    if (!holds) {
        printf("PE %d: %s\n", shmem_my_pe(), what);
        fflush(stdout);
        shmem_global_exit(1);
    }
}

static void tell(const pmix_proc_t* self) {
    pmix_proc_t failed;
    pmix_info_t info;
    PMIX_PROC_LOAD(&failed, self->nspace, (pmix_rank_t)shmem_n_pes());
    PMIX_INFO_LOAD(&info, PMIX_EVENT_AFFECTED_PROC, &failed, PMIX_PROC);
    const pmix_status_t status =
        PMIx_Notify_event(PMIX_ERR_PROC_ABORTED_BY_SIG, self, PMIX_RANGE_PROC_LOCAL, &info, 1, NULL, NULL);
    PMIX_INFO_DESTRUCT(&info);
    require(status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED, "PMIx does not take the event");
}

int main(void) {
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    sigaddset(&wanted, SIGUSR2);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    shmem_init();
    const int me = shmem_my_pe();
    int n_told = 0;
    shmem_barrier_all();
    if (me == 0) {
        pmix_proc_t self;
        require(PMIx_Init(&self, NULL, 0) == PMIX_SUCCESS, "there is no PMIx");
        printf("ready\n");
        fflush(stdout);
        int number = 0;
        while (sigwait(&wanted, &number) == 0 && number == SIGUSR1) {
            tell(&self);
            ++n_told;
        }
        PMIx_Finalize(NULL, 0);
    }
    shmem_barrier_all();
    printf("result %d told %d times\n", me, n_told);
    shmem_finalize();
    return 0;
}
