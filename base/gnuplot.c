#include "base/gnuplot.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void gnuplot_quoted(FILE *script, const char *text)
{
    fputc('\'', script);
    for (const char *p = text; *p; p++)
        fprintf(script, *p == '\'' ? "''" : "%c", *p);
    fputc('\'', script);
}

static int ends_with(const char *name, const char *ending)
{
    const size_t n = strlen(name), m = strlen(ending);
    return n > m && strcmp(name + n - m, ending) == 0;
}

static const char *cannot_write(Arena *a, const char *out)
{
    return arena_printf(a, "%s: cannot be written: %s", out, strerror(errno));
}

const char *gnuplot_begin(Gnuplot *g, Arena *a, const char *out, int width, int height)
{
    FILE *f = fopen(out, "w");
    *g = (Gnuplot){.out = out};
    if (!f)
        return cannot_write(a, out);
    if (ends_with(out, ".gp")) {
        g->script = f;
        return NULL;
    }
    if (fclose(f)) /* gnuplot would write to its stdout instead */
        return cannot_write(a, out);
    g->script = tmpfile();
    if (!g->script)
        return arena_printf(a, "a script for gnuplot: %s", strerror(errno));
    fprintf(g->script, "set terminal %s size %d,%d background rgb 'white' font 'sans,11'\nset output ",
            ends_with(out, ".png") ? "pngcairo" : "svg", width, height);
    gnuplot_quoted(g->script, out);
    fprintf(g->script, "\nset datafile missing 'NaN'\nset lmargin 12\nset rmargin 14\n");
    return NULL;
}

static const char *run(FILE *script, Arena *a)
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
        return arena_printf(a, "gnuplot cannot be started: %s; Debian has it in the package gnuplot-nox",
                            strerror(reason));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) && !WEXITSTATUS(status) ? NULL : "gnuplot failed";
}

const char *gnuplot_end(Gnuplot *g, Arena *a)
{
    const char *error =
        fflush(g->script) ? arena_printf(a, "a script for gnuplot: %s", strerror(errno)) : NULL;
    if (!error && !ends_with(g->out, ".gp"))
        error = run(g->script, a);
    if (fclose(g->script) && !error)
        error = cannot_write(a, g->out);
    g->script = NULL;
    return error;
}
