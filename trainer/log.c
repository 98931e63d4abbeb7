#include "trainer/log.h"

#include "model/model.h"

#include <errno.h>
#include <string.h>

int log_open(Log *l, const Config *c)
{
    *l = (Log){.config = c};
    if (!c->log)
        return 0;
    l->file = fopen(c->log, "w");
    if (!l->file) {
        fprintf(stderr, "moe-train: --log %s: %s\n", c->log, strerror(errno));
        return 1;
    }
    fprintf(l->file, "{\"event\": \"options\", \"options\": ");
    config_json(c, l->file);
    fprintf(l->file, "}\n");
    return 0;
}

static void print_data(const TrainData *d)
{
    printf("data: %zu files, %.1f MB to train on, %.1f MB (%zu files) to validate on", d->files,
           1e-6 * (double)d->train_len, 1e-6 * (double)d->valid_len, d->valid_files);
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
    fflush(stdout);
    if (l->file)
        fprintf(l->file,
                "{\"event\": \"model\", \"parameters\": %lld, \"active\": %lld, \"train_bytes\": %zu, "
                "\"validation_bytes\": %zu, \"persistent_bytes\": %lld, \"arena_bytes\": %lld}\n",
                (long long)count.all.total, (long long)count.all.active, t->data->train_len,
                t->data->valid_len, (long long)store_bytes(t->session.store),
                (long long)run_arena_bytes(t->step));
}

void log_step_begins(Log *l, const Trainer *t)
{
    l->kernels_before = run_kernel_seconds(t->step);
    l->step_began = step_seconds();
}

static void print_progress(Log *l, const Trainer *t)
{
    const Config *c = l->config;
    double each = (l->steps - l->spent_last) / (double)(t->steps - l->step_last);
    long long eta = (long long)(l->steps / (double)t->steps * (double)(c->steps - t->steps) + 0.5);
    printf("step %*lld/%lld  loss %.3f  balance %.2f  grad %.2f  lr %.1e  %.0f tokens/s  ETA %lld:%02lld\n",
           snprintf(NULL, 0, "%lld", (long long)c->steps), (long long)t->steps, (long long)c->steps, t->loss,
           t->metrics[METRIC_BALANCE].mean, t->norm, t->lr, (double)(c->batch * c->sequence) / each, eta / 60,
           eta % 60);
    fflush(stdout);
    l->spent_last = l->steps;
    l->step_last = t->steps;
}

void log_step(Log *l, const Trainer *t)
{
    double seconds = step_seconds() - l->step_began;
    l->steps += seconds;
    l->kernels += run_kernel_seconds(t->step) - l->kernels_before;
    if (l->file) {
        fprintf(l->file,
                "{\"event\": \"step\", \"step\": %lld, \"loss\": %.6f, \"balance\": %.4f, \"dropped\": %.4f, "
                "\"imbalance\": %.3f, \"norm\": %.5f, "
                "\"lr\": %.6g, "
                "\"seconds\": %.4f}\n",
                (long long)t->steps, t->loss, t->metrics[METRIC_BALANCE].mean,
                t->metrics[METRIC_DROPPED].mean, t->metrics[METRIC_IMBALANCE].mean, t->norm, t->lr, seconds);
        fflush(l->file);
    }
    if (t->steps == 1 || t->steps % l->config->log_every == 0 || t->steps == l->config->steps)
        print_progress(l, t);
}

void log_validation(const Log *l, const Trainer *t, double loss, double bigram)
{
    printf("validation %.3f nat/byte, bigram %.3f\n", loss, bigram);
    fflush(stdout);
    if (l->file)
        fprintf(l->file, "{\"event\": \"validation\", \"step\": %lld, \"loss\": %.6f, \"bigram\": %.6f}\n",
                (long long)t->steps, loss, bigram);
}

void log_end(const Log *l, const Trainer *t)
{
    double tokens = (double)(t->steps * l->config->batch * l->config->sequence);
    printf("trained %lld steps in %.1f s: %.0f tokens/s, %.1f %% of the step's time inside kernels\n",
           (long long)t->steps, l->steps, tokens / l->steps, 100 * l->kernels / l->steps);
    if (l->file)
        fprintf(l->file,
                "{\"event\": \"end\", \"steps\": %lld, \"seconds\": %.3f, \"tokens_per_second\": %.1f, "
                "\"kernel_share\": %.5f}\n",
                (long long)t->steps, l->steps, tokens / l->steps, l->kernels / l->steps);
    if (l->config->profile)
        run_print_times(t->step);
}

int log_close(Log *l)
{
    if (!l->file)
        return 0;
    int bad = ferror(l->file);
    if (!fclose(l->file) && !bad)
        return 0;
    fprintf(stderr, "moe-train: --log %s: cannot write: %s\n", l->config->log, strerror(errno));
    return 1;
}
