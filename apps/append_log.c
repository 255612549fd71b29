/* Every PE appends lines to a file of its own, and none is lost or written twice, whoever is killed when.
 *
 *  - How long the file was at the checkpoint is a global, so it goes back with the data. Before a checkpoint everything
 *    is written that the stream still holds (fflush): a length that counts what is only in the stream's buffer would be
 *    one that the file does not have if the process dies now.
 *  - After a recovery the file is opened anew, without emptying it ("r+", never "w"), and cut to that length: what was
 *    written since is written once more, half a line that a killed process has left is gone. Survivors do that, too;
 *    they close the old stream first, because what it has buffered comes to the file then.
 *  - A handler of shmem_ft_on_version does both, so the rest of the program need not know.
 *  - The stream itself belongs to the process: SHMEM_FT_PRIVATE.
 *
 * The files outlive processes, not hosts. On several nodes they belong on a file system that all share, and fsync
 * behind fflush makes them outlive a host. */
#include <inttypes.h>
#include <sys/stat.h>

#include "apps/app_support.h"

static const char kProgram[] = "append_log";

typedef struct {
    unsigned long steps;
    unsigned long pace_ms;
    const char *path;
} Options;

/* Symmetric state. */
static unsigned long step;
static long bytes; /* of my file, at the checkpoint */
static uint64_t digest, digests, n_lines, n_lines_of_all;

static FILE *file SHMEM_FT_PRIVATE;
static char path[4096] SHMEM_FT_PRIVATE;

/* Behind a recovery or at the beginning: the file is as it was at the checkpoint. 0, or an error of errno.h. */
static int open_file(void) {
    if (file != NULL) {
        fclose(file); /* with what it still holds, which is cut off below */
    }
    file = fopen(path, "r+");
    if (file == NULL && errno == ENOENT && bytes == 0) {
        file = fopen(path, "w+");
    }
    struct stat status;
    if (file == NULL || fstat(fileno(file), &status) != 0) {
        return errno;
    }
    if (status.st_size < bytes) {
        return ENODATA; /* cutting would fill it up with zeros */
    }
    return ftruncate(fileno(file), bytes) != 0 || fseek(file, 0, SEEK_END) != 0 ? errno : 0;
}

static int on_version(int event, unsigned long long version, void *context) {
    (void)version, (void)context;
    if (event == SHMEM_FT_AFTER_RESTORE) {
        return open_file();
    }
    if (event == SHMEM_FT_BEFORE_CHECKPOINT) {
        if (fflush(file) != 0) {
            return errno;
        }
        bytes = ftell(file);
    }
    return 0;
}

/* A few hundred bytes: not all of it is written before the process may die. */
static void append(void) {
    for (int line = 0; line < 5; line++) {
        fprintf(file, "step %lu line %d of PE %d: %016" PRIx64 "\n", step, line, shmem_my_pe(),
                app_mix3(step, (uint64_t)line, (uint64_t)shmem_my_pe()));
    }
}

/* What is in the file now, byte by byte. */
static void digest_file(void) {
    digest = APP_HASH_START + (uint64_t)shmem_my_pe();
    n_lines = 0;
    rewind(file);
    for (int letter = getc(file); letter != EOF; letter = getc(file)) {
        digest = app_hash_number(digest, (uint64_t)letter);
        n_lines += letter == '\n';
    }
    shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, &digests, &digest, 1);
    shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, &n_lines_of_all, &n_lines, 1);
}

static AppCommandLine read_options(int argc, char **argv, Options *options) {
    const AppOption rows[] = {
        {.name = "path", .help = "of the files; the PE's number follows", .text = &options->path},
        {.name = "steps", .help = "of the computation", .number = &options->steps, .minimum = 1, .maximum = 1000000},
        {.name = "pace", .help = "milliseconds to idle per step", .number = &options->pace_ms, .maximum = 60000},
        {.name = NULL},
    };
    const AppCommandLine line = app_parse(argc, argv, rows);
    if (line.help && shmem_my_pe() == 0) {
        app_print_help(kProgram, "appends to files, every line once", rows);
    }
    return line;
}

int main(int argc, char **argv) {
    app_install_exit_signals();
    shmem_init();
    Options options = {.steps = 60, .path = "append_log.out"};
    const AppCommandLine line = read_options(argc, argv, &options);
    app_stop_on_error(kProgram, line.error);
    if (line.help) {
        shmem_finalize();
        return 0;
    }

    snprintf(path, sizeof path, "%s.%d", options.path, shmem_my_pe());
    shmem_ft_on_version(on_version, NULL);
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    if (SHMEM_FT_ROLLBACK_POINT()) { /* a substitute joins here, before it touches a file */
        app_recover();
    } else {
        const int error = open_file();
        if (error != 0) {
            app_fail(kProgram, strerror(error));
        }
    }
    shmem_checkpoint_all();
    while (step < options.steps) {
        append();
        step++;
        app_leave_if_asked();
        app_sleep_ms(options.pace_ms);
        if (step % 3 == 0 || step == options.steps) {
            shmem_checkpoint_all();
        }
    }
    digest_file();
    shmem_checkpoint_all(); /* what is printed is safe, too */
    if (shmem_my_pe() == 0) {
        printf("result append_log %016" PRIx64 " lines %" PRIu64 "\n", digests, n_lines_of_all);
    }
    fclose(file);
    shmem_finalize();
    return 0;
}
