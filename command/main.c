/* The command: subcommands by name, otherwise `moec FILE.moe -o kernel.so`. */
#include "command/command.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
#define COMMAND(name, arguments, doc) {#name, command_##name},
#include "command/commands.def"
};

/* A file that is opened must not become a standard stream that was closed: writes to it would go there. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) != fd)
            _exit(DRIVER_ERROR);
}

/* Also for what argp prints and exits after: a full or closed standard output is an error. */
static void check_stdout(void)
{
    int failed = ferror(stdout);
    if ((fflush(stdout) != 0 || failed) && errno != EPIPE) {
        fprintf(stderr, "moec: standard output cannot be written: %s\n", strerror(errno));
        _exit(DRIVER_ERROR);
    }
}

static void show_version(FILE *out, struct argp_state *state)
{
    (void)state;
    fprintf(out, "moec %s (LLVM %s)\n", MOEC_VERSION, MOEC_LLVM_VERSION);
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    openmp_set_up();
    /* LLVM's large pieces come and go: the system need not clear each anew. */
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    signal(SIGXFSZ, SIG_IGN); /* a limit on file size is an error of writing, not the end */
    atexit(check_stdout);
    argp_err_exit_status = DRIVER_USAGE;
    argp_program_version_hook = show_version;
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0) {
            char name[32];
            snprintf(name, sizeof name, "moec %s", commands[i].name);
            argv[1] = name;
            return commands[i].run(argc - 1, argv + 1);
        }
    argv[0] = (char[]){"moec"};
    return command_compile(argc, argv);
}
