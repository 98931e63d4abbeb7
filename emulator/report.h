/* A simulated call for people and for other programs: text, a page of HTML, a trace for Perfetto. */
#ifndef EMULATOR_REPORT_H
#define EMULATOR_REPORT_H

#include "emulator/simulate.h"

void report_text(const Simulated *s, Text *out);
/* Chrome's trace-event format, which Perfetto opens: a process for each core, a thread for each unit. Of long calls the
 * first cores and operations, as the trace itself says. */
void report_trace(const Simulated *s, Text *out);
/* One page that needs nothing else: launches, what stands where and when on the chip, what the units of a core do. */
void report_html(const Simulated *s, Text *out);

/* ---- shared by them ---- */

typedef struct Spread {
    int64_t least, most;
    double mean;
} Spread;
Spread spread_of(const int64_t *values, uint32_t n);
double cube_use(const Simulated *s, int64_t steps,
                int64_t cycles); /* of what all cube cores could do in that time */
const char *place_name(CoreKind p); /* "cube cores" */
const char *launch_name(const Simulated *s, uint32_t launch, Arena *a);
const char *bound_text(const Machine *m, const SimulatedLaunch *l, Arena *a); /* "cube 91 %", "waits, cube 49 %" */
const char *bytes_text(Arena *a, int64_t bytes);            /* "12.6 MB" */
const char *report_error(const Simulated *s, Arena *a);     /* that it is a model, and how far off */
/* "add gm_l1 x[8, 128]": what an operation is about. */
const char *op_text(const Simulated *s, const Op *op, Arena *a);

#endif
