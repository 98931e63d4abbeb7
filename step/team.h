/* How many threads a run takes while other work shares the machine: Note [Fewer threads] in team.c. */
#ifndef STEP_TEAM_H
#define STEP_TEAM_H

typedef struct Team {
    int most;        /* threads that were asked for */
    int now;         /* what was fastest so far */
    int other;       /* what a trial compares it with; 0: there is no trial */
    int tried;       /* runs of the trial */
    double spent[2]; /* seconds of its runs with `now`, and with `other` */
    int pause, left; /* runs between two trials, and until the next one may begin */
    int went_down;   /* the last trial was of fewer */
    int stride;      /* by which the next one with fewer goes down */
} Team;

Team team_new(int most);
int team_threads(const Team *t); /* of the next run */
/* After a run: its seconds, and how often the system took a core from one of its threads to give it to other work. */
void team_took(Team *t, double seconds, long preempted);

#endif
