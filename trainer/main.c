/* moe-train: see trainer.h for a training run, config.def for its options; the other commands are in command_*.c. */
#include <string.h>

#include "base/base.h"
#include "trainer/command.h"
#include "trainer/log.h"

static int validate(Trainer *t, Log *l)
{
    double loss;
    if (trainer_validate(t, &loss))
        return 1;
    log_validation(l, t, loss, data_bigram_loss(t->data, t->config));
    return 0;
}

static int train(Trainer *t, Log *l)
{
    const Config *c = t->config;
    while (t->steps < c->steps) {
        log_step_begins(l, t);
        if (trainer_step(t))
            return 1;
        log_step(l, t);
        if (c->validate_every && t->steps % c->validate_every == 0 && t->steps < c->steps && validate(t, l))
            return 1;
    }
    log_end(l, t);
    return validate(t, l) || (c->sample && sample_text(t));
}

static int run(const Config *c, const TrainData *d)
{
    Trainer t;
    Log l;
    if (log_open(&l, c))
        return 1;
    int bad = trainer_new(&t, c, d, 0);
    if (!bad) {
        log_model(&l, &t);
        bad = train(&t, &l);
    }
    trainer_free(&t);
    return log_close(&l) || bad;
}

static int command_train(int argc, char **argv)
{
    Config c = config_read(argc, argv);
    TrainData d;
    if (c.check)
        config_make_tiny(&c);
    config_read_model(&c);
    int bad = data_read(&d, &c);
    if (!bad) {
        bad = c.check ? check_run(&c, &d) : run(&c, &d);
        data_free(&d);
    }
    config_free(&c);
    return bad;
}

int main(int argc, char **argv)
{
    static const CliCommand commands[] = {
        {"eval", "loss, gradients and logits of a model on tokens", command_eval},
        {"generate", "continues a sequence of tokens", command_generate},
        {"plan", "the step as a program: sizes, memory, time on paper", command_plan},
    };
    static const Cli train = {
        "moe-train", MOEC_VERSION, commands, sizeof commands / sizeof *commands, command_train, 0};
    openmp_set_up();
    return cli_main(&train, argc, argv);
}
