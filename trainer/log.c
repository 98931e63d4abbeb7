#include "trainer/log.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer/complain.h"
#include "trainer/job.h"

/* ---- lines of JSON ---- */

/* Takes the object. A line that cannot be written is missing from the log; log_close() tells the first reason. */
static void write_event(Log *l, json_t *event)
{
    char *text = l->fd < 0 ? NULL : json_dumps(event, JSON_REAL_PRECISION(9));
    const size_t len = text ? strlen(text) : 0;
    if (text)
        text[len] = '\n';
    const int reason = l->fd < 0 ? 0 : text ? file_add(l->fd, text, len + 1) : ENOMEM;
    if (!l->reason)
        l->reason = reason;
    free(text);
    json_decref(event);
}

/* Where the last whole line ends, or -1 when what follows it is not the beginning of an event. */
static off_t end_of_lines(int fd)
{
    static const char begin[] = "{\"event\": ";
    const off_t end = lseek(fd, 0, SEEK_END);
    off_t at = end;
    for (char c; at > 0 && pread(fd, &c, 1, at - 1) == 1 && c != '\n';)
        at--;
    char tail[sizeof begin - 1];
    const ssize_t n = at < end ? pread(fd, tail, sizeof tail, at) : 0;
    return n >= 0 && memcmp(tail, begin, (size_t)n) == 0 ? at : -1;
}

/* A run that goes on writes behind what is there; the last line may be half a line of a run that was killed. */
static int open_file(Log *l, const char *path, int goes_on)
{
    l->fd = open(path, O_CREAT | O_APPEND | O_CLOEXEC | (goes_on ? O_RDWR : O_WRONLY | O_TRUNC), 0666);
    if (l->fd < 0)
        return complain("--log %s: %s", path, strerror(errno));
    if (!goes_on || lseek(l->fd, 0, SEEK_END) <= 0)
        return 0;
    const off_t end = end_of_lines(l->fd);
    if (end < 0)
        return complain("--log %s: its last line is no event of a log", path);
    return ftruncate(l->fd, end) == 0 ? 0 : complain("--log %s: %s", path, strerror(errno));
}

static int not_written(const Log *l)
{
    return complain("--log %s: cannot be written: %s", l->config->log, strerror(l->reason));
}

int log_open(Log *l, const Config *c)
{
    *l = (Log){.config = c, .fd = -1, .terminal = on_terminal(STDOUT_FILENO)};
    if (!c->log)
        return 0;
    const int is_new = access(c->log, F_OK) != 0;
    if (open_file(l, c->log, c->checkpoint != NULL))
        return 1;
    write_event(l, json_pack("{s:s, s:o}", "event", "options", "options", config_json(c)));
    if (!l->reason)
        return 0;
    if (is_new)
        unlink(c->log); /* it is empty */
    return not_written(l);
}

static const char *size_text(Arena *a, int64_t bytes)
{
    return bytes < 1000000 ? arena_printf(a, "%.1f kB", 1e-3 * (double)bytes)
                           : arena_printf(a, "%.1f MB", 1e-6 * (double)bytes);
}

/* One file is cut in two. */
static void print_text(const TrainData *d)
{
    const char *train = size_text(d->arena, d->train.tokens), *valid = size_text(d->arena, d->valid.tokens);
    if (d->files == 1)
        printf("data: 1 file, %s to train on, %s (its beginning) to validate on", train, valid);
    else
        printf("data: %zu files, %s to train on, %s (%zu file%s) to validate on", d->files, train, valid,
               d->valid_files, d->valid_files == 1 ? "" : "s");
}

static void print_data(const TrainData *d)
{
    if (d->is_text)
        print_text(d);
    else
        printf("data: %lld documents, %.2f M tokens to train on, %.2f M to validate on",
               (long long)d->documents, 1e-6 * (double)d->train.tokens, 1e-6 * (double)d->valid.tokens);
    if (d->binary || d->empty || d->unreadable)
        printf("; left out %zu binary, %zu empty, %zu unreadable", d->binary, d->empty, d->unreadable);
    putchar('\n');
}

void log_model(Log *l, const Trainer *t)
{
    const ModelCount count = model_count(&t->session.model);
    const ModelConfig *m = &t->session.model;
    print_data(t->data);
    printf("model: %.2f M parameters, %.2f M active per token: %lld layers, width %lld, %lld heads, %lld "
           "experts top-%lld of width "
           "%lld and %s of width %lld\n",
           1e-6 * (double)count.all.total, 1e-6 * (double)count.all.active, (long long)m->layers,
           (long long)m->hidden, (long long)m->heads, (long long)m->experts, (long long)m->top_k,
           (long long)m->expert_width, m->shared_experts == 1 ? "one shared" : "shared ones",
           (long long)m->shared_width);
    printf("kernels: compiled in %.2f s\n", t->session.compile_seconds);
    printf("memory: %.1f MiB of weights, gradients and moments, %.1f MiB for a step\n",
           (double)store_bytes(t->session.store) / 0x1p20, (double)run_arena_bytes(t->step) / 0x1p20);
    if (t->config->checkpoint)
        printf("goes on from %s, saves into %s\n", t->config->checkpoint, t->config->save);
    else if (t->config->resume)
        printf("--resume: %s has no checkpoint, so the run begins at step 1\n", t->config->save);
    if (t->config->steps < t->state.steps)
        complain_once("--steps %lld: the checkpoint is at step %lld, so no step is made",
                      (long long)t->config->steps, (long long)t->state.steps);
    fflush(stdout);
    write_event(l, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "event", "model", "parameters",
                             (json_int_t)count.all.total, "active", (json_int_t)count.all.active,
                             "train_tokens", (json_int_t)t->data->train.tokens, "validation_tokens",
                             (json_int_t)t->data->valid.tokens, "persistent_bytes",
                             (json_int_t)store_bytes(t->session.store), "arena_bytes",
                             (json_int_t)run_arena_bytes(t->step), "step", (json_int_t)t->state.steps));
    l->step_first = l->step_last = t->state.steps;
}

void log_step_begins(Log *l, const Trainer *t)
{
    l->kernels_before = run_kernel_seconds(t->step);
    l->step_began = clock_seconds();
}

/* On a terminal a line of its own, written over by the next one, unless it `stays`. */
static void print_progress(Log *l, const Trainer *t, int stays)
{
    const Config *c = l->config;
    double each = (l->steps - l->spent_last) / (double)(t->state.steps - l->step_last);
    long long eta = (long long)(l->steps / (double)(t->state.steps - l->step_first) *
                                    (double)(c->steps - t->state.steps) +
                                0.5);
    printf("%sstep %*lld/%lld  loss %.3f  balance %.2f  grad %.2f  lr %.1e  %.0f tokens/s  ETA %lld:%02lld%s",
           l->terminal ? "\r" : "", snprintf(NULL, 0, "%lld", (long long)c->steps), (long long)t->state.steps,
           (long long)c->steps, t->loss, t->metrics[METRIC_BALANCE].mean, t->norm, t->lr,
           (double)(c->batch * c->sequence) / each, eta / 60, eta % 60, l->terminal ? TERMINAL_CLEAR : "");
    if (stays) {
        putchar('\n');
        l->spent_last = l->steps;
        l->step_last = t->state.steps;
    }
    fflush(stdout);
}

/* The share of the step's tokens that chose each expert; layer: an index of those with experts. Five digits behind the point: one
 * choice more of a hundred thousand. */
static json_t *shares_of(const Trainer *t, int64_t layer)
{
    const double tokens = (double)(t->config->batch * t->config->sequence);
    const int64_t experts = t->session.model.experts;
    json_t *shares = json_array();
    for (int64_t e = 0; e < experts; e++)
        json_array_append_new(shares, json_real(round(1e5 * t->loads[layer * experts + e] / tokens) / 1e5));
    return shares;
}

static void log_load(Log *l, const Trainer *t)
{
    const ModelConfig *m = &t->session.model;
    const int64_t layers = t->load.n / t->config->micro_batches;
    json_t *numbers = json_array(), *shares = json_array();
    for (int64_t i = 0; i < layers; i++) {
        json_array_append_new(numbers, json_integer(m->layers - layers + i)); /* dense layers come first */
        json_array_append_new(shares, shares_of(t, i));
    }
    write_event(l, json_pack("{s:s, s:I, s:o, s:o}", "event", "load", "step", (json_int_t)t->state.steps,
                             "layers", numbers, "shares", shares));
}

void log_step(Log *l, const Trainer *t)
{
    double seconds = clock_seconds() - l->step_began;
    l->steps += seconds;
    l->kernels += run_kernel_seconds(t->step) - l->kernels_before;
    write_event(l, json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:f, s:b, s:f}", "event", "step", "step",
                             (json_int_t)t->state.steps, "loss", json_number(t->loss), "balance",
                             json_number(t->metrics[METRIC_BALANCE].mean), "dropped",
                             json_number(t->metrics[METRIC_DROPPED].mean), "imbalance",
                             json_number(t->metrics[METRIC_IMBALANCE].mean), "norm", json_number(t->norm),
                             "lr", t->lr, "skipped", t->state.skipped > 0, "seconds", seconds));
    if (l->config->load_every && t->state.steps % l->config->load_every == 0)
        log_load(l, t);
    const int stays = t->state.steps == l->step_first + 1 || t->state.steps % l->config->log_every == 0 ||
                      t->state.steps == l->config->steps;
    if (stays || l->terminal)
        print_progress(l, t, stays);
}

void log_validation(Log *l, const Trainer *t, double loss, double bigram)
{
    if (t->data->is_text)
        printf("validation %.3f nat/byte, bigram %.3f\n", loss, bigram);
    else
        printf("validation %.3f nat/token\n", loss);
    fflush(stdout);
    write_event(l,
                json_pack("{s:s, s:I, s:o, s:o}", "event", "validation", "step", (json_int_t)t->state.steps,
                          "loss", json_number(loss), "bigram", json_number(bigram)));
}

void log_save(Log *l, const SaveFolder *f, double seconds)
{
    write_event(l, json_pack("{s:s, s:I, s:b, s:f}", "event", "save", "step", (json_int_t)f->saved, "failed",
                             f->failed, "seconds", seconds));
}

void log_end(Log *l, const Trainer *t)
{
    const int64_t steps = t->state.steps - l->step_first;
    const double tokens = (double)(steps * l->config->batch * l->config->sequence);
    if (steps > 0) {
        printf("trained %lld steps in %.1f s: %.0f tokens/s, %.1f %% of the step's time inside kernels\n",
               (long long)steps, l->steps, tokens / l->steps, 100 * l->kernels / l->steps);
        printf("resident memory: at most %.1f MiB in a rank\n", (double)l->resident / 0x1p20);
        job_print(t, steps);
        write_event(l, json_pack("{s:s, s:I, s:f, s:f, s:f, s:I, s:o}", "event", "end", "steps",
                                 (json_int_t)steps, "seconds", l->steps, "tokens_per_second",
                                 tokens / l->steps, "kernel_share", l->kernels / l->steps, "resident_bytes",
                                 (json_int_t)l->resident, "exchanges", job_json(t)));
    }
    if (l->config->profile)
        run_print_times(t->step);
}

int log_close(Log *l)
{
    if (l->fd >= 0 && close(l->fd) != 0 && !l->reason)
        l->reason = errno;
    return l->reason ? not_written(l) : 0;
}
