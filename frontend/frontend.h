/* .moe text -> AST -> checked -> equations. The front door of frontend/. */
#ifndef FRONTEND_FRONTEND_H
#define FRONTEND_FRONTEND_H

#include "ir/ir.h"

/* Reads .moe text into m (use files are opened relative to `path`). Errors are collected in m->diags; returns
 * 0 when there are none. Kernels, derive requests, schedules and tests are in m afterwards; no `derive` is
 * run. */
int frontend_read(Module *m, const char *path, const char *text, size_t len);

enum { FRONTEND_MAX_NESTING = 200, FRONTEND_MAX_BYTES = 16 << 20 };

#endif
