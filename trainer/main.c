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

static const struct {
    const char *name;
    char *called; /* in messages */
    int (*run)(int argc, char **argv);
} commands[] = {{"eval", "moe-train eval", command_eval},
                {"generate", "moe-train generate", command_generate},
                {"plan", "moe-train plan", command_plan}};

int main(int argc, char **argv)
{
    openmp_set_up();
    for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name)) {
            argv[1] = commands[i].called;
            return commands[i].run(argc - 1, argv + 1);
        }
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
