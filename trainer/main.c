/* moe-train: see trainer.h for the flow of a step, config.def for the options. */
#include "trainer/log.h"

static int validate(Trainer *t, Log *l)
{
    double loss;
    if (step_validate(t, &loss))
        return 1;
    log_validation(l, t, loss, data_bigram_loss(t->data, t->config));
    return 0;
}

static int train(Trainer *t, Log *l)
{
    const Config *c = t->config;
    while (t->step < c->steps) {
        log_step_begins(l, t);
        if (step_run(t))
            return 1;
        log_step(l, t);
        if (c->validate_every && t->step % c->validate_every == 0 && t->step < c->steps && validate(t, l))
            return 1;
    }
    log_end(l, t);
    return validate(t, l) || (c->sample && sample_text(t));
}

static int run(const Config *c, const TrainData *d)
{
    Trainer t;
    Log l;
    double begin = train_seconds();
    if (log_open(&l, c))
        return 1;
    int bad = trainer_new(&t, c, d, 0);
    if (!bad) {
        log_model(&l, &t, train_seconds() - begin);
        bad = train(&t, &l);
    }
    trainer_free(&t);
    return log_close(&l) || bad;
}

int main(int argc, char **argv)
{
    Config c = config_read(argc, argv);
    TrainData d;
    if (c.check)
        config_make_tiny(&c);
    int bad = data_read(&d, &c);
    if (!bad) {
        bad = c.check ? check_run(&c, &d) : run(&c, &d);
        data_free(&d);
    }
    config_free(&c);
    return bad;
}
