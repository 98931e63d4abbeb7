/* What a program tells the OpenMP library about its machine. The library starts the threads of kernels, and it reads the
 * environment once, when it is loaded; so a program says it first of all, and links nothing that loads the library. */
#ifndef BASE_OPENMP_H
#define BASE_OPENMP_H

/* Sets what the user has not set: a waiting thread spins for some tens of microseconds before it sleeps, and there are no more
 * threads than the process's control group grants cores. To be called while there is one thread. */
void openmp_set_up(void);

/* The threads of a team: as many as were asked for, or what OpenMP takes where that is 0. */
int openmp_threads(int asked);

/* The cores that the control groups of a process grant it, rounded up; 0: no limit. `list` is its /proc/self/cgroup, `root` the
 * folder in which the groups are mounted. Reads versions 1 and 2 of the interface (cgroups(7)). */
int cgroup_cores(const char *list, const char *root);

#endif
