/* JSON: Jansson's reader and values. The one place that names the library. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/arena.h"

/* How all JSON is written: indented by two, in the arena; numbers read back as they are. Takes the reference to `value`; without memory it leaves through the
 * arena. */
const char *json_text(Arena *a, json_t *value);
const char *json_line(Arena *a, json_t *value); /* without blanks and lines */

/* The value of a file in which no key stands twice; a reference. NULL, and why: the place in the file, or the system's reason. */
json_t *json_file(Arena *a, const char *path, const char **error);

/* A value as it stands in a message: one line of ASCII, cut after 60 characters. */
const char *json_excerpt(Arena *a, const json_t *value);

/* FILE: KEY is VALUE: RULE. Without a value (NULL): FILE: KEY is missing: RULE. */
const char *json_refusal(Arena *a, const char *file, const char *key, const json_t *value, const char *rule);

/* Null where it is infinite or no number, which JSON does not have. */
json_t *json_number(double value);

#endif
