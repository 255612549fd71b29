/* What the programs here share and any OpenSHMEM library can do: options with one-line errors, deterministic numbers, a
 * hash. Plain C11, everything static inline.
 *
 * Why nothing here keeps state in globals: globals of a program are symmetric memory, so they are saved and, in a
 * substitute, overwritten by what the dead PE had. Pointers into argv or malloc memory would be wild there. Options
 * therefore live on the stack of main, where every process has its own. */
#ifndef APPS_APP_COMMON_H
#define APPS_APP_COMMON_H

#include <ctype.h>
#include <errno.h>
#include <shmem.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { APP_ERROR_LENGTH = 200 };

/* One option of a program: `--name VALUE`, or a bare `--name` when flag is set. */
typedef struct {
    const char *name;
    const char *help;
    unsigned long *number; /* accepted: minimum .. maximum */
    unsigned long minimum;
    unsigned long maximum;
    bool *flag;
    const char **text;
} AppOption;

/* The outcome of reading the command line; error is empty when all is well. */
typedef struct {
    bool help;
    char error[APP_ERROR_LENGTH];
} AppCommandLine;

static inline bool app_parse_number(const AppOption *option, const char *text, char *error) {
    char *end = NULL;
    errno = 0;
    const unsigned long value = strtoul(text, &end, 10);
    const bool is_number = isdigit((unsigned char)text[0]) && *end == '\0' && errno == 0;
    if (!is_number || value < option->minimum || value > option->maximum) {
        snprintf(error, APP_ERROR_LENGTH, "--%s %.40s: expected a whole number from %lu to %lu", option->name, text,
                 option->minimum, option->maximum);
        return false;
    }
    *option->number = value;
    return true;
}

/* Accepts `--name VALUE` and `--name=VALUE`; options ends with an entry whose name is NULL. */
static inline AppCommandLine app_parse(int argc, char **argv, const AppOption *options) {
    AppCommandLine line = {.help = false, .error = ""};
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            line.help = true;
            return line;
        }
        const char *name = strncmp(argument, "--", 2) == 0 ? argument + 2 : "";
        const size_t name_length = strcspn(name, "=");
        const AppOption *option = options;
        while (option->name && (strlen(option->name) != name_length || strncmp(option->name, name, name_length))) {
            option++;
        }
        if (option->name == NULL || (option->flag != NULL && name[name_length] == '=')) {
            snprintf(line.error, sizeof line.error, "unknown argument '%.60s': --help lists what there is", argument);
            return line;
        }
        if (option->flag != NULL) {
            *option->flag = true;
            continue;
        }
        const char *value = name[name_length] == '=' ? name + name_length + 1 : ++i < argc ? argv[i] : NULL;
        if (value == NULL) {
            snprintf(line.error, sizeof line.error, "--%s needs a value", option->name);
            return line;
        }
        if (option->text != NULL) {
            *option->text = value;
        } else if (!app_parse_number(option, value, line.error)) {
            return line;
        }
    }
    return line;
}

static inline void app_print_help(const char *program, const char *purpose, const AppOption *options) {
    printf("%s: %s\n\nOptions:\n", program, purpose);
    for (const AppOption *option = options; option->name != NULL; option++) {
        const char *value = option->number != NULL ? " NUMBER" : option->text != NULL ? " FILE" : "";
        char left[40];
        snprintf(left, sizeof left, "--%s%s", option->name, value);
        printf("  %-20s %s", left, option->help);
        if (option->number != NULL) {
            printf(" (default %lu)", *option->number);
        }
        printf("\n");
    }
    printf("  %-20s %s\n", "--help", "this text");
}

/* Collective, after shmem_init. An error of the command line is one line from PE 0 and the end of the job. */
static inline void app_stop_on_error(const char *program, const char *error) {
    if (error[0] == '\0') {
        return;
    }
    if (shmem_my_pe() == 0) {
        fprintf(stderr, "%s: error: %s\n", program, error);
        shmem_global_exit(2);
    }
    shmem_barrier_all(); /* nobody else ends the job before the line is out */
}

/* A PE-local failure in the middle of the work, such as no memory. */
static inline void app_fail(const char *program, const char *error) {
    fprintf(stderr, "%s: error: PE %d: %s\n", program, shmem_my_pe(), error);
    shmem_global_exit(1);
}

/* SplitMix64's finalizer: the same number for the same argument everywhere, which makes every program here
 * repeatable without a generator whose state would have to be saved. */
static inline uint64_t app_mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t app_mix3(uint64_t a, uint64_t b, uint64_t c) { return app_mix(app_mix(app_mix(a) ^ b) ^ c); }

#define APP_HASH_START UINT64_C(0xcbf29ce484222325)

/* FNV-1a over 64-bit words: sensitive to every bit and to the order. REQUIRES: bytes is a multiple of 8. */
static inline uint64_t app_hash(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *at = (const unsigned char *)data;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t word;
        memcpy(&word, at + i, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x100000001b3);
        hash ^= hash >> 29; /* multiplication alone never lets high bits act on low ones */
    }
    return hash;
}

static inline uint64_t app_hash_number(uint64_t hash, uint64_t number) {
    return app_hash(hash, &number, sizeof number);
}

static inline void app_sleep_ms(unsigned long milliseconds) {
    struct timespec left = {(time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000L};
    while (milliseconds != 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

#endif
