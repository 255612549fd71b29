/* A PMIx client that tells what it is told about nodes, and exchanges a value with every other process.
 *
 *     pmix_probe                    one exchange among all
 *     pmix_probe survivors FILE     then waits until FILE is there, which holds the ranks of those that live, and
 * exchanges once more among these
 *
 * Every line of the output begins with `RANK HOSTNAME`. Ends with 0 if all was as it should be. An alarm ends who
 * hangs. */
#include <pmix.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TIMEOUT_S = 25, RANKS_MAX = 4096, VALUE_BASE = 1000 };

static pmix_proc_t me;
static char host[256];

#define SAY(...) (printf("%u %s ", me.rank, host), printf(__VA_ARGS__), printf("\n"), fflush(stdout))

static void require(pmix_status_t status, const char* what) {
    if (status != PMIX_SUCCESS) {
        SAY("%s failed: %s", what, PMIx_Error_string(status));
        exit(1);
    }
}

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void show(pmix_rank_t rank, const char* key) {
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, me.nspace, rank);
    pmix_value_t* value = NULL;
    const pmix_status_t status = PMIx_Get(&proc, key, NULL, 0, &value);
    const char* whose = rank == PMIX_RANK_WILDCARD ? "job" : "proc";
    if (status != PMIX_SUCCESS) {
        SAY("%s %d %s: %s", whose, (int)rank, key, PMIx_Error_string(status));
    } else if (value->type == PMIX_STRING) {
        SAY("%s %d %s = '%s'", whose, (int)rank, key, value->data.string);
    } else if (value->type == PMIX_UINT32) {
        SAY("%s %d %s = %u", whose, (int)rank, key, value->data.uint32);
    } else if (value->type == PMIX_UINT16) {
        SAY("%s %d %s = %u", whose, (int)rank, key, value->data.uint16);
    } else if (value->type == PMIX_PROC_RANK) {
        SAY("%s %d %s = %u", whose, (int)rank, key, value->data.rank);
    } else {
        SAY("%s %d %s has type %s", whose, (int)rank, key, PMIx_Data_type_string(value->type));
    }
    if (value) {
        PMIX_VALUE_RELEASE(value);
    }
}

/* Puts a value of its own, meets the others, and looks at theirs. */
static void exchange(const char* key, const pmix_rank_t* ranks, size_t count) {
    pmix_value_t own = {.type = PMIX_UINT32};
    own.data.uint32 = VALUE_BASE + me.rank;
    require(PMIx_Put(PMIX_GLOBAL, key, &own), "PMIx_Put");
    require(PMIx_Commit(), "PMIx_Commit");

    pmix_proc_t* procs = calloc(count, sizeof *procs);
    for (size_t i = 0; i < count; i++) {
        PMIX_LOAD_PROCID(&procs[i], me.nspace, ranks[i]);
    }
    bool collect = true;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    const double begin = now_ms();
    require(PMIx_Fence(procs, count, &info, 1), "PMIx_Fence");
    const double fenced = now_ms();
    size_t right = 0;
    for (size_t i = 0; i < count; i++) {
        pmix_value_t* value = NULL;
        require(PMIx_Get(&procs[i], key, NULL, 0, &value), "PMIx_Get");
        right += value->type == PMIX_UINT32 && value->data.uint32 == VALUE_BASE + ranks[i];
        PMIX_VALUE_RELEASE(value);
    }
    SAY("%s: %zu of %zu values right, fence %.2f ms, gets %.2f ms", key, right, count, fenced - begin,
        now_ms() - fenced);
    free(procs);
    if (right != count) {
        exit(1);
    }
}

static size_t read_survivors(const char* path, pmix_rank_t* ranks) {
    FILE* file = NULL;
    while (!(file = fopen(path, "r"))) {
        poll(NULL, 0, 10);
    }
    size_t count = 0;
    while (count < RANKS_MAX && fscanf(file, "%u", &ranks[count]) == 1) {
        count++;
    }
    fclose(file);
    return count;
}

int main(int argc, char** argv) {
    static pmix_rank_t ranks[RANKS_MAX];
    alarm(TIMEOUT_S);
    gethostname(host, sizeof host - 1);
    require(PMIx_Init(&me, NULL, 0), "PMIx_Init");

    pmix_proc_t job;
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    pmix_value_t* size = NULL;
    require(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &size), "PMIx_Get of the size");
    const uint32_t count = size->data.uint32;
    PMIX_VALUE_RELEASE(size);
    for (uint32_t i = 0; i < count && i < RANKS_MAX; i++) {
        ranks[i] = i;
    }

    const char* keys_of_job[] = {PMIX_NODE_MAP,  PMIX_PROC_MAP,  PMIX_NUM_NODES, PMIX_LOCAL_PEERS, PMIX_LOCAL_SIZE,
                                 PMIX_NODE_SIZE, PMIX_NODE_LIST, PMIX_UNIV_SIZE, PMIX_MAX_PROCS,   PMIX_HOSTNAME,
                                 PMIX_TMPDIR,    PMIX_NSDIR,     PMIX_ANL_MAP,   PMIX_NODEID};
    for (size_t i = 0; me.rank == 0 && i < sizeof keys_of_job / sizeof *keys_of_job; i++) {
        show(PMIX_RANK_WILDCARD, keys_of_job[i]);
    }
    for (uint32_t rank = 0; rank < count; rank++) {
        show(rank, PMIX_HOSTNAME);
        show(rank, PMIX_NODEID);
    }
    show(me.rank, PMIX_LOCAL_RANK);
    show(me.rank, PMIX_NODE_RANK);
    show(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS);

    exchange("first", ranks, count);
    exchange("second", ranks, count);
    if (argc == 3 && strcmp(argv[1], "survivors") == 0) {
        exchange("third", ranks, read_survivors(argv[2], ranks));
    }
    if (argc == 1) {
        PMIx_Finalize(NULL, 0); /* among survivors only, it would wait for the dead */
    }
    return 0;
}
