/* JSON: Jansson's reader and values. The one place that names the library. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#endif
