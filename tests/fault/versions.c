/* What handlers of shmem_ft_on_version are told, in which order, while a PE dies.
 *
 *     versions [--refuse EVENT] [--at VERSION]
 *
 * 20 steps with a call of shmem_checkpoint_all in each; PE 1 dies in step 9. Two handlers note what they are told; that
 * nothing is left out, told twice or out of order is checked here. PE 2 refuses EVENT of VERSION. */
#include "apps/app_support.h"

static const char kProgram[] = "versions";

enum { STEPS = 20, DEATH = 9, VICTIM = 1, REFUSES = 2, REFUSAL = 7 };

static long step;          /* symmetric */
static unsigned long made; /* versions, as the handlers count them before each: belongs to it */

/* Of this process. */
static struct {
    unsigned long long before, after;
    unsigned long restores, wrong;
    char last_called;
} told SHMEM_FT_PRIVATE;
static unsigned long refuse SHMEM_FT_PRIVATE, at SHMEM_FT_PRIVATE;
static int me SHMEM_FT_PRIVATE;

static void must(bool is_right, const char* what, unsigned long long version) {
    if (!is_right) {
        told.wrong++;
        fprintf(stderr, "PE %d: %s, version %llu\n", me, what, version);
    }
}

/* Registered first. */
static int first(int event, unsigned long long version, void* context) {
    must(context == &told, "another context", version);
    const bool is_before = event == SHMEM_FT_BEFORE_CHECKPOINT;
    must(!is_before || told.last_called == '2', "the second one was not before the first one", version);
    told.last_called = '1';
    if (is_before) {
        must(version == made + 1, "not the next version", version);
        told.before = version;
        made++;
    } else if (event == SHMEM_FT_AFTER_CHECKPOINT) {
        must(version == told.before && version == told.after + 1, "a commit of something else", version);
        told.after = version;
    } else {
        must(event == SHMEM_FT_AFTER_RESTORE && made == version, "memory is not that of the version", version);
        must(told.after == 0 || told.after == version, "not back to the last commit", version);
        told.after = version;
        told.restores++;
    }
    return (unsigned long)event == refuse && version == at && me == REFUSES ? REFUSAL : 0;
}

static int second(int event, unsigned long long version, void* context) {
    (void)context;
    must(event == SHMEM_FT_BEFORE_CHECKPOINT || told.last_called == '1', "the first one was not before the second one",
         version);
    told.last_called = '2';
    return 0;
}

int main(int argc, char** argv) {
    shmem_init();
    me = shmem_my_pe();
    const AppOption table[] = {
        {.name = "refuse", .help = "the event that PE 2 refuses", .number = &refuse, .maximum = 3},
        {.name = "at", .help = "of which version", .number = &at, .maximum = STEPS},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, table);
    app_stop_on_error(kProgram, line.error);
    if (shmem_ft_on_version(NULL, NULL) == 0 || shmem_ft_on_version(first, &told) != 0 ||
        shmem_ft_on_version(second, NULL) != 0) {
        app_fail(kProgram, "registering is wrong");
    }
    const bool is_first = shmem_ft_algo_init() != 0;
    if (SHMEM_FT_ROLLBACK_POINT()) {
        shmem_ft_recover();
    }
    while (step < STEPS) {
        shmem_checkpoint_all();
        if (step == DEATH && me == VICTIM && is_first) {
            raise(SIGKILL);
        }
        step++;
        shmem_barrier_all();
    }
    shmem_checkpoint_all();
    if (told.wrong == 0) {
        printf("result %s PE %d made %lu committed %llu restores %lu\n", kProgram, me, made, told.after, told.restores);
    }
    fflush(stdout);
    shmem_finalize();
    return told.wrong != 0;
}
