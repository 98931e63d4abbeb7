/* A run of a few steps whose every call of a kernel is compared with the interpreter's result from the same arguments.
 *
 * Two runs side by side, one compiled and one interpreted, cannot be compared for long: both are right to round
 * differently, and once a router's scores are nearly tied, that makes a token go to another expert, with another loss. */
#include "trainer/trainer.h"

/* Where more than this share of the results hangs on choices near a tie, too little was compared. */
static const double doubtful_limit = 0.05;

static void print_row(const Trainer *t, const moec_score *s)
{
    printf("%4lld  %9.6f  %8.5f  %10lld  %8.2f  %8lld  %6lld\n", (long long)t->state.steps, t->loss, t->norm,
           (long long)s->compared, s->worst, (long long)s->doubtful, (long long)s->flipped);
}

static int run_steps(Trainer *t, moec_score *sum)
{
    printf("                 norm of    elements   largest     in      choices\n"
           "step       loss  gradients  compared    error   doubt    flipped\n");
    int bad = 0;
    while (t->state.steps < t->config->steps && !bad) {
        bad = trainer_step(t);
        moec_score score = run_take_score(t->step);
        if (!bad)
            print_row(t, &score);
        run_add_score(sum, &score);
    }
    if (bad || sum->doubtful)
        run_print_doubts(t->step);
    return bad;
}

/* The first call that differs ends the run, so that what follows from one choice is not taken for wrong numbers. */
static void print_difference(const moec_score *sum)
{
    if (sum->mischosen)
        printf(
            "check: compiled kernels DIFFER from the interpreter: another choice, which no tie explains\n");
    else if (sum->wrong)
        printf("check: compiled kernels DIFFER from the interpreter: a wrong number\n");
    else
        printf("check: the run failed before all calls were compared\n");
}

static int print_result(const moec_score *sum)
{
    if ((double)sum->doubtful > doubtful_limit * (double)sum->compared) {
        printf("check: %lld of %lld elements are in doubt: too few were compared\n", (long long)sum->doubtful,
               (long long)sum->compared);
        return 1;
    }
    printf("check: compiled kernels agree with the interpreter, error %.2f of bound", sum->worst);
    if (sum->flipped)
        printf("; %lld choices fell the other way, each within rounding of a tie", (long long)sum->flipped);
    putchar('\n');
    return 0;
}

int check_run(const Config *c, const TrainData *d, Comm *comm)
{
    Trainer t;
    moec_score sum = {0};
    int bad = trainer_new(&t, c, d, comm, 1) || run_steps(&t, &sum);
    if (bad)
        print_difference(&sum);
    else
        bad = print_result(&sum);
    trainer_free(&t);
    return bad;
}
