/* A program in which system calls fail while everybody lives, or which makes calls where none is expected.
 *
 *     scarce --mode full|shut|deaf|leave|exit|exit-early [--left N]
 *
 *   full   PE 0 fills its table of descriptors but for N; then PE 1 dies, and PE 0 has to map the memory of another
 *   shut   PE 1 dies, and the one that replaces it lets nobody open what it has
 *   deaf   PE 2 shuts down every connection of its messages, which are there since the recovery from a death before
 *   leave  shmem_finalize is an exit handler, and PE 1 is ended by the library while the others are in a barrier
 *   exit   the same, and PE 1 ends itself; exit-early: the handler was registered before shmem_init */
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "apps/app_support.h"

static const char kProgram[] = "scarce";

enum { FATAL_STEP = 3, STEPS = 8, DYING_PE = 1, SHUTTING_PE = 2, DESCRIPTORS = 200 };

/* Symmetric state. */
static long step, seen;
static uint64_t sum;

/* The kernel lets the superuser open everything; an ordinary user's job has no such rights. */
static void become_ordinary(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
    syscall(SYS_capset, &header, none);
}

static bool has_exit_handler SHMEM_FT_PRIVATE;

static void finalize_at_exit(void) {
    atexit(shmem_finalize);
    has_exit_handler = true;
}

static void fill_descriptors(unsigned long left) {
    const struct rlimit few = {DESCRIPTORS, DESCRIPTORS};
    int taken[DESCRIPTORS];
    int count = 0;
    setrlimit(RLIMIT_NOFILE, &few);
    for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;) {
        taken[count++] = fd;
    }
    for (; left > 0 && count > 0; left--) {
        close(taken[--count]);
    }
}

/* One end of such a connection has the name of a mailbox; the line to oshrun has another one. */
static bool has_mail_name(int fd, int (*ask)(int, struct sockaddr*, socklen_t*)) {
    static const char kMail[] = "shmem-ft-mail-";
    struct sockaddr_un name;
    socklen_t bytes = sizeof name;
    memset(&name, 0, sizeof name);
    return ask(fd, (struct sockaddr*)&name, &bytes) == 0 && name.sun_family == AF_UNIX &&
           memcmp(name.sun_path + 1, kMail, sizeof kMail - 1) == 0;
}

static int ask_own(int fd, struct sockaddr* name, socklen_t* bytes) { return getsockname(fd, name, bytes); }
static int ask_other(int fd, struct sockaddr* name, socklen_t* bytes) { return getpeername(fd, name, bytes); }

static void shut_connections(void) {
    DIR* folder = opendir("/proc/self/fd");
    int count = 0;
    for (struct dirent* entry; (entry = readdir(folder)) != NULL;) {
        const int fd = atoi(entry->d_name);
        int listens = 0;
        socklen_t bytes = sizeof listens;
        if ((has_mail_name(fd, ask_own) || has_mail_name(fd, ask_other)) &&
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && !listens) {
            count += shutdown(fd, SHUT_RDWR) == 0;
        }
    }
    closedir(folder);
    fprintf(stderr, "%d connections are shut\n", count);
}

static void make_trouble(const char* mode, unsigned long left) {
    const int me = shmem_my_pe();
    if (strcmp(mode, "full") == 0 && me == 0) {
        fill_descriptors(left);
    } else if (strcmp(mode, "deaf") == 0 && me == SHUTTING_PE) {
        shut_connections();
    } else if (strcmp(mode, "leave") == 0 && me == DYING_PE) {
        shmem_long_p(&seen, 1, shmem_n_pes());
    } else if (has_exit_handler && strcmp(mode, "leave") != 0 && me == DYING_PE) {
        exit(APP_PEER_EXIT_CODE);
    }
    shmem_barrier_all();
    if ((strcmp(mode, "full") == 0 || strcmp(mode, "shut") == 0) && me == DYING_PE) {
        raise(SIGKILL);
    }
}

int main(int argc, char** argv) {
    unsigned long left = 0;
    const char* mode = "plain";
    const AppOption table[] = {
        {.name = "mode", .help = "full, shut, deaf, leave, exit or exit-early", .text = &mode},
        {.name = "left", .help = "descriptors that are left", .number = &left, .maximum = 100},
        {.name = NULL},
    };
    become_ordinary();
    for (int i = 1; i < argc; i++) { /* the library is not there yet to read the options */
        if (strcmp(argv[i], "exit-early") == 0) {
            finalize_at_exit();
        }
    }
    shmem_init();
    AppCommandLine line = app_parse(argc, argv, table);
    app_stop_on_error(kProgram, line.error);
    if (strcmp(mode, "leave") == 0 || strcmp(mode, "exit") == 0) {
        finalize_at_exit();
    }
    const bool is_substitute = !shmem_ft_algo_init();
    if (is_substitute && strcmp(mode, "shut") == 0) {
        prctl(PR_SET_DUMPABLE, 0);
    }
    bool has_recovered = is_substitute;
    bool finished = false;
    do {
        if (shmem_checkpoint_all() != SHMEM_FT_SUCCESS) {
            shmem_ft_recover();
            has_recovered = true;
        } else if (step < STEPS) {
            const bool is_deaf = strcmp(mode, "deaf") == 0;
            if (step == FATAL_STEP - 1 && is_deaf && !has_recovered && shmem_my_pe() == DYING_PE) {
                raise(SIGKILL);
            }
            if (step == FATAL_STEP && (is_deaf || !has_recovered)) {
                make_trouble(mode, left);
            }
            const int next = (shmem_my_pe() + 1) % shmem_n_pes();
            shmem_long_p(&seen, (long)(app_mix3((uint64_t)step, (uint64_t)next, 7) >> 20), next);
            shmem_barrier_all();
            sum = app_hash_number(sum, (uint64_t)seen);
            shmem_barrier_all();
            step++;
        } else {
            finished = true;
        }
    } while (!finished);
    printf("result %d %016llx\n", shmem_my_pe(), (unsigned long long)sum);
    fflush(stdout);
    if (!has_exit_handler) {
        shmem_finalize();
    }
    return 0;
}
