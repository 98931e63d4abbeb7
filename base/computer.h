/* What the computer has on which a program runs. */
#ifndef BASE_COMPUTER_H
#define BASE_COMPUTER_H

int computer_cores(void);     /* at least 1 */
int cores_of_process(void);   /* those that it may run on: taskset and ranks of a job leave it fewer */
double computer_memory(void); /* bytes */

#endif
