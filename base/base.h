/* The front door of base/: what every room may use. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include "base/arena.h"
#include "base/bf16.h"
#include "base/cli.h"
#include "base/clock.h"
#include "base/computer.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/guess.h"
#include "base/hash.h"
#include "base/openmp.h"
#include "base/random.h"
#include "base/text.h"
#include "base/vec.h"

#endif
