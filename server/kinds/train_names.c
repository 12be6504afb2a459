#include "kinds/train_names.h"

#include "base/integer.h"
#include "jobs/train/train_plan.h"
#include "schema/schema.h"
#include "store/checkpoint_names.h"
#include "store/checkpoints.h"
#include "store/trajectories.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTER "/params/trajectory"

static struct checkpoint_names names_of(const struct train_params *params, const char *trajectory, int64_t after)
{
    const int64_t last = train_plan_steps(params, params->tokens);
    struct checkpoint_names names = {
        .averages = params->ema.decay > 0,
        .fresh = params->from == NULL,
        .after = after,
        .every = params->checkpoint_every > 0 ? train_plan_steps(params, params->checkpoint_every) : last,
        .last = last,
    };
    (void)snprintf(names.trajectory, sizeof names.trajectory, "%s", trajectory);
    return names;
}

/* ---- the names as a document ---- */

static json_t *names_pack(const struct checkpoint_names *names)
{
    return json_pack("{ss ss sb sb sI sI sI}", "pointer", POINTER, "trajectory", names->trajectory, "averages",
                     names->averages, "fresh", names->fresh, "after", (json_int_t)names->after, "every",
                     (json_int_t)names->every, "last", (json_int_t)names->last);
}

static struct checkpoint_names names_unpack(const json_t *makes)
{
    struct checkpoint_names names = {
        .averages = json_is_true(json_object_get(makes, "averages")),
        .fresh = json_is_true(json_object_get(makes, "fresh")),
        .after = json_integer_value(json_object_get(makes, "after")),
        .every = json_integer_value(json_object_get(makes, "every")),
        .last = json_integer_value(json_object_get(makes, "last")),
    };
    (void)snprintf(names.trajectory, sizeof names.trajectory, "%s",
                   json_string_value(json_object_get(makes, "trajectory")));
    return names;
}

/* A trajectory that is not there yet is known by its name. */
enum status train_names_note(struct run_request *request, const struct train_params *params, int64_t after,
                             struct error *error)
{
    json_t *document = NULL;
    if (after < 0) return STATUS_OK;
    const enum status status = trajectory_get(request->connection, params->trajectory, &document, error);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND) return status;
    const char *known = json_string_value(json_object_get(document, "name"));
    const struct checkpoint_names names = names_of(params, known != NULL ? known : params->trajectory, after);
    json_decref(document);
    request->makes = names_pack(&names);
    return request->makes == NULL ? error_no_memory(error, "a run") : STATUS_OK;
}

/* ---- two runs ---- */

static bool has(const struct checkpoint_names *names, int64_t step)
{
    return step > names->after && (step == names->last || (step < names->last && step % names->every == 0));
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t divisor = a, rest = b;
    while (rest != 0) {
        const int64_t next = divisor % rest;
        divisor = rest;
        rest = next;
    }
    return saturating_multiply(a / divisor, b);
}

/* A step at which both write, 0: there is none. */
static int64_t common_step(const struct checkpoint_names *a, const struct checkpoint_names *b)
{
    const int64_t both = common_multiple(a->every, b->every), after = a->after > b->after ? a->after : b->after;
    const int64_t next = saturating_multiply(after / both + 1, both);
    if (has(a, next) && has(b, next)) return next;
    return has(b, a->last) ? a->last : has(a, b->last) ? b->last : 0;
}

/* Says how the run `b` meets `a`, which comes after it. */
static bool meet(const struct checkpoint_names *a, const struct checkpoint_names *b, char words[KIND_MEET_TEXT])
{
    char name[40];
    if (strcmp(a->trajectory, b->trajectory) != 0) return false;
    const int64_t step = common_step(a, b);
    train_checkpoint_name(step, false, name, sizeof name);
    if (step > 0)
        (void)snprintf(words, KIND_MEET_TEXT, "make a checkpoint \"%.250s/%s\"", a->trajectory, name);
    else if (a->fresh)
        (void)snprintf(words, KIND_MEET_TEXT, "train in the trajectory \"%.250s\"", a->trajectory);
    return step > 0 || a->fresh;
}

bool train_names_meet(const json_t *makes, const json_t *others, char words[KIND_MEET_TEXT])
{
    const struct checkpoint_names a = names_unpack(makes), b = names_unpack(others);
    return meet(&a, &b, words);
}

/* ---- what is there, and what will be ---- */

static enum status refuse(const struct checkpoint_names *names, const struct checkpoint_names_found *found,
                          struct error *error)
{
    const bool made = found->run.text[0] != '\0';
    return error_set_at(error, STATUS_CONFLICT, POINTER, "there is a checkpoint \"%.250s\"%s%s already: %s",
                        found->name, made ? " of run " : "", found->run.text,
                        names->fresh ? "a run with fresh weights needs a trajectory without others; choose another one,"
                                       " or a checkpoint to continue in \"from\""
                                     : "choose another trajectory");
}

static enum status check_there(struct connection *connection, const struct checkpoint_names *names, const char *run,
                               struct error *error)
{
    struct checkpoint_names_found *found = malloc(sizeof *found);
    if (found == NULL) return error_no_memory(error, "a run");
    enum status status = checkpoint_names_find(connection, names, run, found, error);
    if (status == STATUS_OK && found->name[0] != '\0') status = refuse(names, found, error);
    free(found);
    return status;
}

/* The names of a run that was posted before. What cannot be told of it is left to the runs: *known is false. */
static enum status names_of_posted(struct connection *connection, json_t *params, const char *trajectory, bool *known,
                                   struct checkpoint_names *out, struct error *error)
{
    struct schema_filled filled = {0};
    struct checkpoint *row = malloc(sizeof *row);
    int64_t after = 0;
    enum status status =
        row == NULL ? error_no_memory(error, "a run")
                    : schema_fill(train_params, sizeof(struct train_params), params, "/params", NULL, &filled, error);
    const struct train_params *posted = filled.params;
    if (status == STATUS_OK && posted->from != NULL) {
        status = checkpoint_find(connection, posted->from, row, error);
        after = status == STATUS_OK ? row->step : -1;
    }
    *known = status == STATUS_OK && after >= 0;
    if (*known) *out = names_of(posted, trajectory, after);
    schema_filled_reset(&filled);
    free(row);
    return status == STATUS_NOT_FOUND || status == STATUS_INVALID ? STATUS_OK : status;
}

static enum status check_unfinished(struct connection *connection, const struct checkpoint_names *names,
                                    struct error *error)
{
    json_t *runs = NULL, *run;
    size_t i;
    enum status status = checkpoint_names_unfinished(connection, train_kind.name, names->trajectory, &runs, error);
    json_array_foreach(runs, i, run)
    {
        struct checkpoint_names others;
        char words[KIND_MEET_TEXT];
        bool known = false;
        if (status == STATUS_OK)
            status =
                names_of_posted(connection, json_object_get(run, "params"), names->trajectory, &known, &others, error);
        if (known && meet(names, &others, words))
            status = error_set_at(error, STATUS_CONFLICT, POINTER,
                                  "run %s, which has not ended, is to %s too: choose another trajectory",
                                  json_string_value(json_object_get(run, "id")), words);
        if (status != STATUS_OK) break;
    }
    json_decref(runs);
    return status;
}

enum status train_names_vacant(const struct run_request *request, struct error *error)
{
    const struct checkpoint_names names = names_unpack(request->makes);
    const enum status status = check_there(request->connection, &names, NULL, error);
    return status == STATUS_OK ? check_unfinished(request->connection, &names, error) : status;
}

/* An attempt that goes on has begun in the trajectory, whatever was registered there since. */
enum status train_names_check(const struct run_context *context, const struct train_params *params,
                              const char *trajectory, int64_t after, struct error *error)
{
    struct checkpoint_names names = names_of(params, trajectory, after);
    names.fresh = names.fresh && context->attempt == 0;
    return check_there(context->connection, &names, context->run, error);
}
