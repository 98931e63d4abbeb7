/* The database of what was tuned: moec_record of the public header, in a file of SQLite.
 *
 * Note [Records] A record is one race of a schedule with the default, and is never changed. The file says whose it is
 * (application_id) and of which version (user_version); one of another version is refused by name. It is written with a log ahead
 * (WAL): who is killed loses what was not committed, and each record is a transaction of its own; several processes write in
 * turn. */
#ifndef RECORDS_RECORDS_H
#define RECORDS_RECORDS_H

#include "base/base.h"
#include "moec/moec.h"

typedef enum RecordsMode {
    RECORDS_READ,    /* it must exist */
    RECORDS_FROZEN,  /* likewise, and nobody writes it: it may be in a place where nothing can be written */
    RECORDS_WRITE    /* made when it is missing */
} RecordsMode;

typedef struct Records Records;

/* NULL or an error text, in a. */
const char *records_open(const char *path, RecordsMode mode, Arena *a, Records **out);
void records_close(Records *r);
/* Those below return 0, or 1 with records_error(). */
int records_add(Records *r, const moec_record *record);
/* All of a program, or of all (content NULL), in the order in which they were made, until f returns 1. Texts live until then. */
int records_each(Records *r, const char *content, int (*f)(void *user, const moec_record *record), void *user);
/* Removes those of other builds than `build` (NULL: of none) and those made before `before`; *removed says how many. */
int records_prune(Records *r, const char *build, int64_t before, int64_t *removed);
const char *records_error(const Records *r);

#endif
