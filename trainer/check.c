#include "trainer/trainer.h"

#include <math.h>

enum { CHECK_STEPS = 10 };

static int run(const Config *c, const Data *d, int interpret, double losses[CHECK_STEPS])
{
    Trainer t;
    int bad = trainer_new(&t, c, d, interpret);
    for (int i = 0; !bad && i < CHECK_STEPS; i++) {
        bad = step_run(&t);
        losses[i] = t.loss;
    }
    trainer_free(&t);
    return bad;
}

/* Both runs round to bf16 at the same places but add in different orders, so a few roundings differ; the
 * losses stay within far less than one bf16 step of each other. */
int check_run(const Config *c, const Data *d)
{
    static const double tolerance = 2e-3;
    double compiled[CHECK_STEPS], interpreted[CHECK_STEPS];
    if (run(c, d, 0, compiled) || run(c, d, 1, interpreted))
        return 1;
    int bad = 0;
    for (int i = 0; i < CHECK_STEPS; i++) {
        int differs = !(fabs(compiled[i] - interpreted[i]) <= tolerance);
        printf("step %2d  compiled %.6f  interpreted %.6f%s\n", i + 1, compiled[i], interpreted[i],
               differs ? "  DIFFERS" : "");
        bad |= differs;
    }
    printf("check: the losses %s within %g\n", bad ? "do not agree" : "agree", tolerance);
    return bad;
}
