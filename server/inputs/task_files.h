/* task_files.h: the files of records that a run of tasks names: below a root, of the content that they had when the run
 * was posted. */
#ifndef INPUTS_TASK_FILES_H
#define INPUTS_TASK_FILES_H

#include "base/param.h"
#include "inputs/hash.h"
#include "inputs/run_context.h"
#include "tasks/task_set.h"

/* An item of the parameter "tasks". */
struct task_param {
    int name; /* index in task_table */
    const char *path, *fewshot;
    const char *sha256, *fewshot_sha256; /* what is expected; NULL: anything, when posted */
};
extern const struct param task_file_params[];

/* For check: resolves the paths and hashes the files; writes the hashes into the run's parameters (request->params
 * "tasks"), so that the run stays what it is, and into its identity. Small files are read record by record, so that
 * those that do not fit are refused now. STATUS_INVALID at the field to blame. */
MUST_CHECK enum status task_files_check(struct run_request *request, const struct task_param *tasks, int64_t count,
                                        int shots, int64_t limit, struct error *error);

/* Opens all of them for a run: STATUS_INPUT_CHANGED when a file is not what was posted. The caller owns sets[0 …
 * count), also after a failure (task_files_close). */
MUST_CHECK enum status task_files_open(const struct run_context *context, const struct task_param *tasks, int64_t count,
                                       int shots, int64_t limit, struct task_set **sets, struct error *error);
void task_files_close(struct task_set **sets, int64_t count);

#endif
