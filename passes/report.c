/* Collects what the passes decided. */
#include "passes/report.h"

void report_edge(Report *r, const Kernel *k, ReportEdge e)
{
    (void)r;
    (void)k;
    (void)e;
}

void report_product(Report *r, const Kernel *k, ReportProduct p)
{
    (void)r;
    (void)k;
    (void)p;
}
