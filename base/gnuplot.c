#include "base/gnuplot.h"
#include "base/text.h"

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

const char *gnuplot_begin(Gnuplot *g, Arena *a, const char *out, int width, int height)
{
    *g = (Gnuplot){.file = file_create(a, out)};
    if (g->file.error)
        return g->file.error;
    if (text_ends(out, ".gp")) {
        g->script = g->file.file;
        return NULL;
    }
    g->script = tmpfile();
    if (!g->script) {
        const char *error = arena_printf(a, "a script for gnuplot: %s", strerror(errno));
        file_drop(&g->file);
        return error;
    }
    fprintf(g->script,
            "set terminal %s size %d,%d background rgb 'white' font 'sans,11'\n"
            "set datafile missing 'NaN'\nset lmargin 12\nset rmargin 14\n",
            text_ends(out, ".png") ? "pngcairo" : "svg", width, height);
    return NULL;
}

/* The picture is what gnuplot writes to its standard output. */
static const char *run(const Gnuplot *g, Arena *a)
{
    static char name[] = "gnuplot";
    static char *argv[] = {name, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status;
    rewind(g->script);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(g->script), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(g->file.file), STDOUT_FILENO);
    const int reason = posix_spawnp(&child, name, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (reason)
        return arena_printf(a, "gnuplot cannot be started: %s; Debian has it in the package gnuplot-nox",
                            strerror(reason));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) && !WEXITSTATUS(status) ? NULL : "gnuplot failed";
}

static void close_script(Gnuplot *g)
{
    if (g->script != g->file.file)
        fclose(g->script);
    g->script = NULL;
}

const char *gnuplot_end(Gnuplot *g, Arena *a)
{
    const char *error =
        fflush(g->script) ? arena_printf(a, "a script for gnuplot: %s", strerror(errno)) : NULL;
    if (!error && g->script != g->file.file)
        error = run(g, a);
    if (error) {
        gnuplot_drop(g);
        return error;
    }
    close_script(g);
    return file_commit(&g->file);
}

void gnuplot_drop(Gnuplot *g)
{
    close_script(g);
    file_drop(&g->file);
}
