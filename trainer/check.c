#include "trainer/trainer.h"

#include <math.h>

enum { CHECK_STEPS = 10 };

typedef struct Trace {
    double loss[CHECK_STEPS], norm[CHECK_STEPS];
} Trace;

static int run(const Config *c, const Data *d, int interpret, Trace *out)
{
    Trainer t;
    int bad = trainer_new(&t, c, d, interpret);
    for (int i = 0; !bad && i < CHECK_STEPS; i++) {
        bad = step_run(&t);
        out->loss[i] = t.loss;
        out->norm[i] = t.norm;
    }
    trainer_free(&t);
    return bad;
}

static int apart(double a, double b, double tolerance) { return !(fabs(a - b) <= tolerance * fabs(b)); }

/* Both runs round to bf16 at the same places but add in different orders, so that now and then a rounding
 * differs; that moves a loss by about a millionth. Norms of gradients tell faults that the losses of ten
 * steps hide. */
int check_run(const Config *c, const Data *d)
{
    static const double tolerance = 1e-4, norm_tolerance = 5e-3;
    Trace compiled, reference;
    if (run(c, d, 0, &compiled) || run(c, d, 1, &reference))
        return 1;
    int bad = 0;
    printf("        loss                   norm of the gradients\n"
           "step    compiled interpreted   compiled interpreted\n");
    for (int i = 0; i < CHECK_STEPS; i++) {
        int differs = apart(compiled.loss[i], reference.loss[i], tolerance) ||
                      apart(compiled.norm[i], reference.norm[i], norm_tolerance);
        printf("%4d  %10.6f  %10.6f  %9.5f   %9.5f%s\n", i + 1, compiled.loss[i], reference.loss[i],
               compiled.norm[i], reference.norm[i], differs ? "  DIFFERS" : "");
        bad |= differs;
    }
    printf("check: compiled and interpreted training %s\n", bad ? "DIFFER" : "agree");
    return bad;
}
