/* Every routine of shmem_ft.h in jobs that lose two PEs, for the observer (observer.c).
 *
 *     recovering [--pace MS] [--lossless]
 *
 * Needs 2 spares. PE 1 dies in step 5, and the survivors' calls lead to a handler; PE 0 dies in step 9, and they jump;
 * with --lossless nobody dies. Between them lie checkpoints of everything, of one page in a hundred, and of nothing. */
#include "apps/app_support.h"

static const char kProgram[] = "recovering";

enum { STEPS = 12, FIRST_DEATH = 5, SECOND_DEATH = 9, JUMPS_FROM = 7, PAGE = 4096, PAGES = 512 };

static unsigned long step; /* symmetric */

static int handler_calls SHMEM_FT_PRIVATE;

static void on_fault(const char* routine, void* context) {
    (void)routine;
    ++*(int*)context;
    shmem_my_pe(); /* so that the registers are looked at here */
}

static int on_unreplaced(int reason, const int* pes, size_t numpes, void* context) {
    (void)reason, (void)pes, (void)numpes, (void)context;
    return SHMEM_FT_UNREPLACED_ABORT;
}

static int on_version(int event, unsigned long long version, void* context) {
    (void)event, (void)version, (void)context;
    return 0;
}

static void choose_actions(void) {
    const int action = step < JUMPS_FROM ? SHMEM_FT_ON_FAULT_CALL : SHMEM_FT_ON_FAULT_JUMP;
    if (shmem_ft_on_fault(action, on_fault, &handler_calls) != 0 || shmem_ft_on_unreplaced(on_unreplaced, NULL) != 0) {
        app_fail(kProgram, "a handler is refused");
    }
}

static void recover(bool is_substitute) {
    int *pes = NULL, *status = NULL;
    size_t numpes = 0;
    char text[80];
    shmem_query_fault(&pes, &status, &numpes);
    /* Of a PE on another node it may only be known that it has died. */
    if (numpes != 1 || shmem_ft_status_kind(status[0]) == SHMEM_FT_EXITED ||
        shmem_ft_status_signal(status[0]) == SIGSEGV || shmem_ft_status_exit_code(status[0]) != -1 ||
        shmem_ft_status_text(status[0], text, sizeof text) != text) {
        app_fail(kProgram, "the list of failed PEs is not what has happened");
    }
    const int lost = pes[0];
    if (is_substitute) {
        shmem_ft_recover(); /* the same: it asks again */
    } else {
        shmem_restart_pes(pes, numpes);
    }
    printf("%s of PE %d, step %lu\n", is_substitute ? "substitute" : "survivor", lost, step);
    fflush(stdout);
    free(pes);
    free(status);
}

/* Some in the background, of which nothing is left to chance: it is waited for. */
static int checkpoint(void) {
    int result = step % 3 == 2 ? shmem_ft_checkpoint_nb() : shmem_checkpoint_all();
    if (result == SHMEM_FT_SUCCESS) {
        do {
            result = shmem_ft_checkpoint_test();
        } while (result == SHMEM_FT_PENDING);
    }
    return result == SHMEM_FT_SUCCESS ? shmem_ft_checkpoint_wait() : result;
}

static void change(char* heap) {
    const size_t stride = step % 3 == 0 ? 1 : step % 3 == 1 ? 100 : PAGES;
    for (size_t page = 1; page < PAGES; page += stride) {
        memset(heap + page * PAGE, (int)step + 1, PAGE);
    }
}

static void die_if_due(bool is_first) {
    const int victim = step == FIRST_DEATH ? 1 : step == SECOND_DEATH ? 0 : -1;
    if (is_first && shmem_my_pe() == victim) {
        raise(SIGKILL);
    }
}

int main(int argc, char** argv) {
    shmem_init();
    unsigned long pace_ms = 0;
    bool is_lossless = false;
    const AppOption table[] = {
        {.name = "pace", .help = "milliseconds to idle per step", .number = &pace_ms, .maximum = 1000},
        {.name = "lossless", .help = "nobody dies", .flag = &is_lossless},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, table);
    app_stop_on_error(kProgram, line.error);
    if (shmem_ft_on_version(on_version, NULL) != 0) {
        app_fail(kProgram, "a handler is refused");
    }
    static int kept SHMEM_FT_PRIVATE;
    if (shmem_ft_include(&kept, sizeof kept) != SHMEM_FT_SUCCESS) {
        app_fail(kProgram, "private memory is not included");
    }
    static char scratch[PAGE];
    if (shmem_ft_exclude(scratch, sizeof scratch) != SHMEM_FT_SUCCESS) {
        app_fail(kProgram, "scratch space is not left out");
    }
    /* There is no version to load from, which a line says. */
    if (shmem_ft_declare_array("scratch", scratch, 1, 0, sizeof scratch) != SHMEM_FT_SUCCESS ||
        shmem_ft_stored_elements("scratch") != 0 ||
        shmem_ft_load_array("scratch", scratch, 1, 0, 1) != SHMEM_FT_FAILURE) {
        app_fail(kProgram, "an array is not as it should be");
    }
    char* const heap = shmem_malloc((size_t)PAGES * PAGE);
    const bool is_first = shmem_ft_algo_init() != 0;
    volatile bool has_joined = is_first;
    if (SHMEM_FT_ROLLBACK_POINT()) {
        recover(!has_joined);
        has_joined = true;
    }
    while (step < STEPS) {
        choose_actions();
        if (checkpoint() != SHMEM_FT_SUCCESS) {
            recover(!has_joined);
            has_joined = true;
            continue;
        }
        step++;
        change(heap);
        app_sleep_ms(pace_ms);
        die_if_due(is_first && !is_lossless);
        shmem_barrier_all();
    }
    if ((shmem_ft_protected() == 0) == is_lossless) { /* no spare is left after two deaths */
        app_fail(kProgram, "shmem_ft_protected is wrong");
    }
    shmem_free(heap);
    shmem_finalize();
    return 0;
}
