#include "trainer/gnuplot.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trainer/complain.h"

void gnuplot_quoted(FILE *script, const char *text)
{
    fputc('\'', script);
    for (const char *p = text; *p; p++)
        fprintf(script, *p == '\'' ? "''" : "%c", *p);
    fputc('\'', script);
}

FILE *gnuplot_begin(const char *out, int width, int height)
{
    const size_t n = strlen(out);
    const int png = n > 4 && !strcmp(out + n - 4, ".png");
    FILE *f = fopen(out, "w"), *script; /* gnuplot would write to its stdout instead */
    if (!f || fclose(f)) {
        complain("%s: cannot be written: %s", out, strerror(errno));
        return NULL;
    }
    script = tmpfile();
    if (!script) {
        complain("a script for gnuplot: %s", strerror(errno));
        return NULL;
    }
    fprintf(script, "set terminal %s size %d,%d background rgb 'white' font 'sans,11'\nset output ",
            png ? "pngcairo" : "svg", width, height);
    gnuplot_quoted(script, out);
    fprintf(script, "\nset datafile missing 'NaN'\nset lmargin 12\nset rmargin 14\n");
    return script;
}

static int run(FILE *script)
{
    static char name[] = "gnuplot";
    static char *argv[] = {name, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status;
    rewind(script);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(script), STDIN_FILENO);
    const int reason = posix_spawnp(&child, name, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (reason)
        return complain("gnuplot cannot be started: %s; Debian has it in the package gnuplot-nox",
                        strerror(reason));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : complain("gnuplot failed");
}

int gnuplot_end(FILE *script)
{
    const int bad = fflush(script) ? complain("a script for gnuplot: %s", strerror(errno)) : run(script);
    fclose(script);
    return bad;
}
