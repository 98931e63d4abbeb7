/* SQLite's functions, found when a database is opened: a program that opens none does not load the library. */
#ifndef RECORDS_SQLITE_H
#define RECORDS_SQLITE_H

#include <sqlite3.h>

#define SQLITE_FUNCTIONS(F)                                                                                            \
    F(open_v2) F(close) F(exec) F(prepare_v2) F(step) F(finalize) F(bind_text) F(bind_int64) F(bind_double)            \
    F(column_text) F(column_int64) F(column_double) F(column_type) F(errmsg) F(errcode) F(busy_timeout) F(changes)

typedef struct Sqlite {
#define FUNCTION(name) __typeof__(&sqlite3_##name) name;
    SQLITE_FUNCTIONS(FUNCTION)
#undef FUNCTION
} Sqlite;

const Sqlite *sqlite_find(void); /* NULL: the library is not installed here */

#endif
