/* A doubly linked list in the symmetric heap that survives the death of its PEs, raw pointers and all.
 *
 * Nodes are allocated and freed while the program runs, between checkpoints. They point to each other, to a global
 * (their PE's statistics), to functions and to string constants. All of these pointers still lead to the right place
 * in a substitute, because the library puts the heap and the program at the same addresses in every process.
 *
 * shmem_malloc and shmem_free are collective, so all PEs take the same decisions about which nodes come and go (they
 * depend on the step and the seed only). Where a node stands in the list, and what it holds, differs per PE. Once
 * per step every PE takes a number from a node of its right neighbour, so the state of each PE soon depends on the
 * state of all. */
#include "apps/app_support.h"

static const char kProgram[] = "linked_list";

enum { SLOTS = 64, WORDS_MAX = 40 };

typedef struct Node Node;
typedef struct Statistics Statistics;
typedef uint64_t (*Transform)(uint64_t value, uint64_t amount);

struct Node {
    Node *next;
    Node *previous;
    Transform transform;    /* a function of the program */
    const char *colour;     /* a string constant of the program */
    Statistics *statistics; /* a global of the program */
    uint64_t key;           /* the list is sorted by it */
    uint64_t words;         /* length of payload, differs from node to node */
    uint64_t payload[];
};

struct Statistics {
    uint64_t inserted;
    uint64_t removed;
    uint64_t visited;
    uint64_t colours[3];
};

typedef struct {
    unsigned long steps;
    unsigned long seed;
    unsigned long pace_ms;
} Options;

/* Symmetric state beside the heap. */
static unsigned long step;
static Node *head;
static Node *by_slot[SLOTS]; /* the same slot is filled by the same allocation on every PE */
static Statistics statistics;
static uint64_t hashes[2]; /* the whole job's [0] and, on PE 0, a counter of contributions [1] */

static uint64_t rotate(uint64_t value, uint64_t amount) {
    const unsigned bits = (unsigned)(amount % 63) + 1;
    return value << bits | value >> (64 - bits);
}
static uint64_t add(uint64_t value, uint64_t amount) { return value + amount; }
static uint64_t scramble(uint64_t value, uint64_t amount) { return app_mix(value ^ amount); }

static const Transform kTransforms[] = {rotate, add, scramble};
static const char *const kColours[] = {"red", "green", "blue"};

static void link_sorted(Node *node) {
    Node *previous = NULL;
    Node *next = head;
    while (next != NULL && next->key < node->key) {
        previous = next;
        next = next->next;
    }
    node->previous = previous;
    node->next = next;
    *(previous != NULL ? &previous->next : &head) = node;
    if (next != NULL) {
        next->previous = node;
    }
}

static void unlink_node(Node *node) {
    *(node->previous != NULL ? &node->previous->next : &head) = node->next;
    if (node->next != NULL) {
        node->next->previous = node->previous;
    }
}

/* Collective: the size depends on what all PEs know alike, the content on the PE too. */
static void insert_node(size_t slot, uint64_t common) {
    const uint64_t words = 1 + common % WORDS_MAX;
    Node *node = shmem_malloc(sizeof *node + words * sizeof node->payload[0]);
    if (node == NULL) {
        app_fail(kProgram, "no symmetric memory for a node: raise SHMEM_SYMMETRIC_SIZE");
        return;
    }
    const uint64_t own = app_mix3(common, (uint64_t)shmem_my_pe(), slot);
    node->transform = kTransforms[own % 3];
    node->colour = kColours[(own >> 8) % 3];
    node->statistics = &statistics;
    node->key = own >> 16;
    node->words = words;
    for (uint64_t i = 0; i < words; i++) {
        node->payload[i] = app_mix(own + i);
    }
    link_sorted(node);
    by_slot[slot] = node;
    node->statistics->inserted++;
}

/* Collective: the node of one slot has the same symmetric address on every PE. */
static void remove_node(size_t slot) {
    Node *node = by_slot[slot];
    by_slot[slot] = NULL;
    unlink_node(node);
    node->statistics->removed++;
    shmem_free(node);
}

static size_t colour_index(const char *colour) {
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(colour, kColours[i]) == 0) {
            return i;
        }
    }
    app_fail(kProgram, "a node points to no colour");
    return 0;
}

/* Follows every pointer there is. A node in ten gets another key and moves. */
static void walk(void) {
    Node *next = NULL;
    for (Node *node = head; node != NULL; node = next) {
        next = node->next;
        Statistics *all = node->statistics;
        all->visited++;
        all->colours[colour_index(node->colour)] += node->payload[0];
        for (uint64_t i = 0; i < node->words; i++) {
            node->payload[i] = node->transform(node->payload[i], all->visited + i);
        }
        if (node->payload[0] % 10 == 0) {
            node->transform = kTransforms[node->payload[0] / 10 % 3];
            unlink_node(node);
            node->key = app_mix(node->payload[0]) >> 16;
            link_sorted(node);
        }
    }
}

/* Takes a number from the right neighbour's node of the same slot. While a failure is pending the get may bring
 * nothing; what is then computed is rolled back. */
static void exchange(size_t slot) {
    static uint64_t foreign; /* in symmetric memory for no other reason than to be saved, too */
    const int right = (shmem_my_pe() + 1) % shmem_n_pes();
    shmem_barrier_all(); /* the neighbour's walk is over */
    if (by_slot[slot] != NULL) {
        shmem_getmem(&foreign, &by_slot[slot]->payload[0], sizeof foreign, right);
    }
    shmem_barrier_all(); /* everybody has read */
    if (by_slot[slot] != NULL) {
        by_slot[slot]->payload[0] ^= app_mix(foreign);
    }
}

static void compute_step(const Options *options) {
    const uint64_t common = app_mix3(options->seed, step, 7);
    for (uint64_t i = 0; i < 4; i++) { /* an empty slot is filled, a full one is emptied */
        const size_t slot = (size_t)(app_mix(common + i) % SLOTS);
        if (by_slot[slot] == NULL) {
            insert_node(slot, app_mix(common ^ i));
        } else {
            remove_node(slot);
        }
    }
    walk();
    exchange((size_t)(common % SLOTS));
    app_sleep_ms(options->pace_ms);
    step++;
}

/* In list order and by content: addresses are left out, because they may change from job to job. */
static uint64_t hash_list(void) {
    uint64_t hash = APP_HASH_START;
    for (const Node *node = head; node != NULL; node = node->next) {
        hash = app_hash_number(hash, node->key);
        hash = app_hash_number(hash, colour_index(node->colour));
        hash = app_hash_number(hash, node->transform(node->key, node->words));
        hash = app_hash(hash, node->payload, node->words * sizeof node->payload[0]);
    }
    hash = app_hash(hash, &statistics, sizeof statistics);
    return app_hash_number(hash, (uint64_t)shmem_my_pe());
}

/* Every PE adds its hash to PE 0's; the checkpoint after it makes the sum safe. */
static void make_report(void) {
    static uint64_t mine;
    mine = hash_list();
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        for (int pe = 0; pe < shmem_n_pes(); pe++) {
            uint64_t theirs = 0;
            shmem_getmem(&theirs, &mine, sizeof theirs, pe);
            hashes[0] = app_hash_number(hashes[0], theirs);
            hashes[1]++;
        }
    }
}

static AppCommandLine read_options(int argc, char **argv, Options *options) {
    const AppOption table[] = {
        {.name = "steps", .help = "steps to compute", .number = &options->steps, .minimum = 1, .maximum = 1UL << 40},
        {.name = "seed", .help = "of all decisions", .number = &options->seed, .maximum = 1UL << 62},
        {.name = "pace", .help = "milliseconds to idle per step", .number = &options->pace_ms, .maximum = 3600000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, table);
    if (line.help && shmem_my_pe() == 0) {
        app_print_help(kProgram, "a linked list in symmetric memory that survives the death of its PEs", table);
    }
    return line;
}

int main(int argc, char **argv) {
    app_install_exit_signals();
    shmem_init(); /* spares sleep in here until they are needed */

    Options options = {.steps = 200, .seed = 1};
    const AppCommandLine line = read_options(argc, argv, &options);
    app_stop_on_error(kProgram, line.error);
    if (line.help) {
        shmem_finalize();
        return 0;
    }

    if (shmem_ft_algo_init()) { /* not in a substitute: its list is restored, nodes and pointers */
        for (size_t slot = 0; slot < SLOTS; slot += 2) {
            insert_node(slot, app_mix3(options.seed, slot, 5));
        }
    }

    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            app_recover();
        } else if (step < options.steps) {
            app_leave_if_asked();
            compute_step(&options);
            if (step == options.steps) {
                make_report();
            }
        } else {
            finished = true; /* the checkpoint just taken holds the last step and the report */
        }
    } while (!finished);

    if (shmem_my_pe() == 0) {
        printf("%s: %d PEs, %lu steps, %llu lists joined\n", kProgram, shmem_n_pes(), options.steps,
               (unsigned long long)hashes[1]);
        printf("result %016llx\n", (unsigned long long)hashes[0]);
        fflush(stdout);
    }
    shmem_finalize();
    return 0;
}
