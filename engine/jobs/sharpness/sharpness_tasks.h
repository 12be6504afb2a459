/* sharpness_tasks.h: the data of a running sharpness run, and its estimates, one after the other. */
#ifndef SHARPNESS_SHARPNESS_TASKS_H
#define SHARPNESS_SHARPNESS_TASKS_H

#include "curvature/hvp.h"
#include "jobs/sharpness/sharpness.h"
#include "jobs/sharpness/sharpness_state.h"
#include "train/state.h"

#include <limits.h>

/* Streams of random numbers, apart from each other: probe i of an estimator takes stream + i. */
enum {
    STREAM_ENDS = 1,
    STREAM_PRECONDITIONED = 2,
    STREAM_GROUPS = 16,
    STREAM_TRACE = 1 << 20,
    STREAM_SPECTRUM = 1 << 28,
    STREAM_CHANGES = 1 << 29, /* sharpness_random.h */
};

struct sharpness {
    const struct sharpness_request *request;
    struct sharpness_result *out;
    struct parameters_layout *layout;
    struct parameters parameters;
    struct chunks chunks;
    struct hvp *hvp;
    struct matrix gradient;
    enum group *groups;
    struct vector_span *spans; /* of the current group */
    struct sharpness_state state;
    struct saver saver;
    char path[PATH_MAX];    /* of the saved state; "": none is saved */
    int64_t read, task;     /* records read, current task */
    bool saved_at_work;     /* the file has the current task */
    double saved, took;     /* time of the last saving, and its duration */
    struct state_mark mark; /* of the training state that second moments are read from */
    enum hvp_mode mode;
};

/* One estimate. */
struct sharpness_task {
    bool (*wanted)(const struct sharpness *s, int number);
    enum status (*run)(struct sharpness *s, int number, struct error *error);
    enum status (*read)(struct sharpness *s, int number, struct error *error); /* the result out of the records */
    int64_t (*products)(const struct sharpness *s);                            /* at most */
    int number;
};

/* The critical sharpness, the top eigenvalue, the trace, the spectrum, the top eigenvalue of each group, and that of
 * the preconditioned Hessian, in this order. New ones go to the end: saved states know a task by its number. */
enum { SHARPNESS_TASKS = 10 };
extern const struct sharpness_task sharpness_tasks[SHARPNESS_TASKS];

/* Tells the monitor the products that were made, and that so many are left at most. */
void sharpness_tasks_show(const struct sharpness *s, int64_t remaining);

/* Most products of the tasks after `task` (-1: of all), and of the direction. */
int64_t sharpness_tasks_after(const struct sharpness *s, int64_t task);

#endif
