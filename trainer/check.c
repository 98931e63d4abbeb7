/* A run of a few steps whose every call of a kernel is compared with the interpreter's result from the same arguments.
 *
 * Two runs side by side, one compiled and one interpreted, cannot be compared for long: both are right to round
 * differently, and once a router's scores are nearly tied, that makes a token go to another expert, with another loss. */
#include "trainer/trainer.h"

/* Where more than this share of the results hangs on choices near a tie, too little was compared. */
static const double doubtful_limit = 0.05;

static void add(moec_score *sum, const moec_score *s)
{
    sum->worst = s->worst > sum->worst ? s->worst : sum->worst;
    sum->compared += s->compared;
    sum->doubtful += s->doubtful;
    sum->flipped += s->flipped;
}

static void print_row(const Trainer *t, const moec_score *s)
{
    printf("%4lld  %9.6f  %8.5f  %10lld  %8.2f  %8lld  %6lld\n", (long long)t->state.steps, t->loss, t->norm,
           (long long)s->compared, s->worst, (long long)s->doubtful, (long long)s->flipped);
}

static int run_steps(Trainer *t, moec_score *sum)
{
    printf("                 norm of    elements   largest     in      choices\n"
           "step       loss  gradients  compared    error   doubt    flipped\n");
    while (t->state.steps < t->config->steps) {
        if (trainer_step(t))
            return 1;
        moec_score score = run_take_score(t->step);
        print_row(t, &score);
        add(sum, &score);
    }
    return 0;
}

int check_run(const Config *c, const TrainData *d)
{
    Trainer t;
    moec_score sum = {0};
    int bad = trainer_new(&t, c, d, 1) || run_steps(&t, &sum);
    trainer_free(&t);
    if (bad)
        printf("check: compiled kernels DIFFER from the interpreter\n");
    else if ((bad = (double)sum.doubtful > doubtful_limit * (double)sum.compared))
        printf("check: %lld of %lld elements are in doubt: too few were compared\n", (long long)sum.doubtful,
               (long long)sum.compared);
    else
        printf("check: compiled kernels agree with the interpreter, error %.2f of bound\n", sum.worst);
    return bad;
}
