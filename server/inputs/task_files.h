/* task_files.h: the files of records of a run of tasks: below a root, with the content that they had when the run was
 * posted. */
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
    const char *sha256, *fewshot_sha256; /* the expected hashes; NULL: any content, when posted */
};
extern const struct param task_file_params[];

/* Whether a task has this name; if not, `known` gets the names that there are: "arc_challenge, …". */
enum { TASK_FILES_NAMES = 300 };
bool task_files_named(const char *name, char known[TASK_FILES_NAMES]);

/* For check: resolves the paths and hashes the files. The hashes are written into the run's parameters (request->params
 * "tasks"), which pins the content, and into its identity. Small files are parsed, so that invalid records are refused
 * now. STATUS_INVALID at the field of the file. */
MUST_CHECK enum status task_files_check(struct run_request *request, const struct task_param *tasks, int64_t count,
                                        int shots, int64_t limit, struct error *error);

/* Opens all files for a run: STATUS_INPUT_CHANGED when a file has changed since the run was posted. The caller owns
 * sets[0 … count), also after a failure (task_files_close). */
MUST_CHECK enum status task_files_open(const struct run_context *context, const struct task_param *tasks, int64_t count,
                                       int shots, int64_t limit, struct task_set **sets, struct error *error);
void task_files_close(struct task_set **sets, int64_t count);

#endif
