/* The events of event.def as types: what an `event` statement carries, and what the emulator gets. */
#ifndef IR_EVENT_H
#define IR_EVENT_H

#include "ir/tile.h"

typedef enum EventKind {
#define EVENT(name, type, doc, fields) EVENT_##name,
#include "ir/event.def"
    EVENT_COUNT
} EventKind;

/* MoveEvent: the numbers of a move, as the emulator gets them. */
#define VALUE(field) int64_t field;
#define PLACE(field) int64_t field;
#define EVENT(name, type, doc, fields) \
    typedef struct type##Event {       \
        fields                         \
    } type##Event;
#include "ir/event.def"

/* MoveExprs: the expressions of its statement, in Stmt.index. */
#define VALUE(field) ExprId field;
#define PLACE(field)
#define EVENT(name, type, doc, fields) \
    typedef struct type##Exprs {       \
        fields                         \
    } type##Exprs;
#include "ir/event.def"

const char *event_name(EventKind kind);
uint32_t event_exprs(EventKind kind);  /* expressions of its statement */
uint32_t event_places(EventKind kind); /* addresses that follow them */

#endif
