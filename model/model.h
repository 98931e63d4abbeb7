/* Models on paper: their configuration, their weights by name, and how much of everything they need. The front door of model/. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/config.h"
#include "model/count.h"
#include "model/folder.h"
#include "model/rope.h"
#include "model/safetensors.h"
#include "model/weights.h"
#include "model/weights_file.h"

#endif
