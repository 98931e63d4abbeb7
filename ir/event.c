/* The rows of event.def. */
#include "ir/event.h"

static const struct {
    const char *name;
    uint8_t exprs, places;
} events[EVENT_COUNT] = {
#define VALUE(field)
#define PLACE(field) +1
#define EVENT(event, type, doc, fields) {#event, sizeof(type##Exprs) / sizeof(ExprId), 0 fields},
#include "ir/event.def"
};

#define VALUE(field)
#define PLACE(field)
#define EVENT(name, type, doc, fields)                                                           \
    _Static_assert(sizeof(type##Event) <= MAX_RANK * sizeof(int64_t), "a statement has no more " \
                                                                      "expressions");
#include "ir/event.def"

const char *event_name(EventKind kind) { return events[kind].name; }
uint32_t event_exprs(EventKind kind) { return events[kind].exprs; }
uint32_t event_places(EventKind kind) { return events[kind].places; }
