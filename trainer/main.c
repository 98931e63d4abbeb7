/* moe-train: see trainer.h for a training run, config.def for its options; the other commands are in command_*.c. */
#include <stdio.h>

#include "base/base.h"
#include "trainer/checkpoint.h"
#include "trainer/command.h"
#include "trainer/complain.h"
#include "trainer/job.h"
#include "trainer/log.h"
#include "trainer/stop.h"
#include "trainer/trace.h"

static int validate(Trainer *t, Log *l)
{
    double loss;
    if (trainer_validate(t, &loss))
        return 1;
    log_validation(l, t, loss, batch_bigram_loss(t->data, t->config));
    return 0;
}

static int save(SaveFolder *f, Trainer *t, Log *l)
{
    const double began = clock_seconds();
    if (!f->path || f->saved == t->state.steps)
        return 0;
    if (save_now(f, t))
        return 1;
    log_save(l, f, clock_seconds() - began);
    return 0;
}

/* Steps until the last one, or until a signal asks to stop. */
static int train_steps(Trainer *t, Log *l, SaveFolder *f)
{
    const Config *c = t->config;
    while (t->state.steps < c->steps && !job_stops(t)) {
        log_step_begins(l, t);
        if (trainer_step(t))
            return 1;
        log_step(l, t);
        if (c->save_every && t->state.steps % c->save_every == 0 && save(f, t, l))
            return 1;
        if (c->validate_every && t->state.steps % c->validate_every == 0 && t->state.steps < c->steps &&
            validate(t, l))
            return 1;
    }
    if (trace_finish(t) || job_resident(t, &l->resident) || save(f, t, l))
        return 1;
    log_end(l, t);
    return f->failed;
}

/* Of a run that a signal has stopped. */
static const char *what_is_kept(const Trainer *t, const Log *l, const SaveFolder *f)
{
    if (t->state.steps == l->step_first)
        return ": no step was made, and nothing was saved";
    return f->path ? "" : ": nothing was saved, because there is no --save";
}

static int train(Trainer *t, Log *l, SaveFolder *f)
{
    if (train_steps(t, l, f))
        return 1;
    if (!job_stops(t))
        return validate(t, l) || (t->config->sample && sample_print(t));
    printf("stopped by a signal after step %lld%s\n", (long long)t->state.steps, what_is_kept(t, l, f));
    return 0;
}

static int run(const Config *c, const TrainData *d, Comm *comm)
{
    Trainer t;
    Log l;
    SaveFolder f;
    int bad = save_open(&f, c, !comm_rank(comm));
    if (bad || log_open(&l, c)) {
        save_close(&f);
        return 1;
    }
    bad = trainer_new(&t, c, d, comm, 0) || trace_open(&t);
    if (!bad) {
        log_model(&l, &t);
        bad = train(&t, &l, &f) || trace_failed(&t);
    }
    trainer_free(&t);
    save_close(&f);
    return log_close(&l) || bad;
}

/* A checkpoint that the run goes on from has options, too. */
static int read_options(Config *c, int argc, char **argv)
{
    *c = config_read(argc, argv);
    if (c->resume && !c->check && resume_find(c))
        return 1;
    config_finish(c);
    if (c->check)
        config_make_tiny(c);
    config_read_model(c);
    return 0;
}

static int command_train(int argc, char **argv)
{
    Config c;
    TrainData d;
    Comm *comm = NULL;
    int bad = read_options(&c, argc, argv) || !(comm = job_open(&c)) || data_read(&d, &c);
    if (!bad) {
        stop_watch();
        bad = c.check ? check_run(&c, &d, comm) : run(&c, &d, comm);
        data_free(&d);
    }
    comm_close(comm, bad);
    config_free(&c);
    stop_leave();
    return bad;
}

int main(int argc, char **argv)
{
    static const CliCommand commands[] = {
        {"eval", "loss, gradients and logits of a model on text or tokens", command_eval},
        {"generate", "continues text or a sequence of tokens", command_generate},
        {"analyse", "what the experts of a model do, by layer and domain", command_analyse},
        {"plot", "curves of a log, drawn by gnuplot", command_plot},
        {"plan", "the step as a program: sizes, memory, exchanges, on paper", command_plan},
    };
    static const Cli train = {
        "moe-train", MOEC_VERSION, commands, sizeof commands / sizeof *commands, command_train, 0};
    /* a message is one write: nothing of another thread or rank is inside it */
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
    complain_as(comm_launched_rank());
    openmp_set_up();
    return cli_main(&train, argc, argv);
}
