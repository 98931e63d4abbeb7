/* Times in seconds, of which only differences mean something. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_seconds(void);
/* Of one thread the time that it had a core, so that other programs, which take the core away, do not count. */
double clock_of_threads(int threads);

#endif
