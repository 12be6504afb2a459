/* slurm.h: jobs of Slurm through its own commands: sbatch, squeue, scancel and, where there is accounting, sacct. Jobs
 * are identified by their names, so that a restarted launcher finds the jobs of the one before. */
#ifndef LAUNCH_SLURM_H
#define LAUNCH_SLURM_H

#include "launch/template.h"

/* A job. Its name is NAME-HASH-MEMORY, which says everything about it except its state. */
struct slurm_job {
    char id[24];     /* its own number, also within an array: the SLURM_JOB_ID of its worker; "" for part of a pending
                      * array */
    char handle[32]; /* the argument of scancel: "12", "12_3" */
    uint32_t hash;   /* of its template */
    int64_t memory_mib;
    bool pending;
    bool delayed; /* it is back in Slurm's queue and starts minutes from now, so a new job is quicker; or it is held */
    bool held;    /* it starts only after a person has released it (held after a failed prolog), or never */
    char state[20];
    char reason[32]; /* why it waits, in one word: "JobHeldUser", "launch_failed_requeued_held" */
};

/* Lists the jobs of `name`, and not of names that begin with it, that wait or run, but not those that are ending. The
 * caller owns *out (free). */
MUST_CHECK enum status slurm_jobs(const char *name, struct slurm_job **out, size_t *count, struct error *error);

/* The most elements that Slurm lets an array have, unless it is configured to take more (MaxArraySize). */
enum { SLURM_ARRAY_MOST = 1000 };

struct slurm_submission {
    const char *name;
    const struct template *template;
    int64_t memory_mib;              /* 0: not asked for */
    int64_t minutes, threads, count; /* threads 0: as the template says; count: elements of an array */
    const char *log_directory;
    const char *const *worker; /* the worker's command line, ends with NULL */
};

/* The command line of sbatch (an array of strings) and its script, each a new reference. STATUS_NO_MEMORY. */
MUST_CHECK enum status slurm_command(const struct slurm_submission *submission, json_t **words, json_t **script,
                                     struct error *error);
/* *job: its number, the caller's (free). */
MUST_CHECK enum status slurm_submit(const struct slurm_submission *submission, char **job, struct error *error);
/* Cancels a job that waits; one that has started meanwhile stays, unless it was held. */
MUST_CHECK enum status slurm_cancel_pending(const struct slurm_job *job, struct error *error);

struct slurm_end {
    const char *job; /* lent: its number; NULL: not asked for */
    char state[32];  /* "NODE_FAIL", "OUT_OF_MEMORY"; "": not known */
};

/* Fills in the states that are "": as the controller has them, which forgets a job some minutes after its end, or
 * accounting. Each is asked for 200 jobs at a time, because a command may take a minute. */
void slurm_ends(struct slurm_end *ends, size_t count);

#endif
