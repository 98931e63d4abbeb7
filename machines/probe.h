/* Inside machines/: how this computer is asked for a figure. Every `probe` of figures.def has its function. */
#ifndef MACHINES_PROBE_H
#define MACHINES_PROBE_H

#include "machines/machines.h"

#define FIGURE(section, key, unit, probe, doc) int64_t probe_##probe(void);
#include "machines/figures.def"

#endif
