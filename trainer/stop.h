/* Signals that end a run between two steps. */
#ifndef TRAINER_STOP_H
#define TRAINER_STOP_H

/* From here on the first SIGINT or SIGTERM asks the run to stop, and a second one ends the process at once. */
void stop_watch(void);
int stop_asked(void); /* the signal, or 0 */
void stop_ask(int number); /* as if that signal had come; 0: none */
const volatile int *stop_flag(void); /* where it is */
/* Ends the process by that signal, so that whoever started it sees it; does nothing where none has asked. */
void stop_leave(void);

#endif
