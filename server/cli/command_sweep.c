#include "cli/command.h"
#include "cli/verb.h"
#include "kinds/kind.h"
#include "resources/handlers.h"

#include <assert.h>
#include <string.h>

enum { BASE, BODY };

static const struct option_row sweep_options[] = {
    {"--grid", "FIELD=VALUES", NULL, NULL, OPTION_COLONS,
     "Values of a parameter, separated by commas or a JSON array; runs are made for their product"},
    {"--along", "TRAJECTORY", NULL, NULL, OPTION_ONCE, "Every checkpoint of it, instead of --checkpoint"},
    VERB_ROWS,
    VERB_WAIT,
    VERB_JSON,
    {0},
};

static const char *const *sweep_kinds(void)
{
    return kind_names;
}

/* Actions on an existing sweep. Each is a POST to /v1/sweeps/SWEEP`path` unless its row names another method. */
enum { SHOW, WAIT, EXTEND, RETRY, CANCEL, DELETE, ACTIONS };
static const struct command_action actions[] = {
    [SHOW] = {"show", "Print the counts of its runs; with --json all that the server says of it"},
    [WAIT] = {"wait", "Wait until its runs have ended, and print their counts"},
    [EXTEND] = {"extend",
                "Add the values of --grid, or with --along what its trajectory got since; --dry-run adds none"},
    [RETRY] = {"retry-failed", "Queue its failed runs again"},
    [CANCEL] = {"cancel", "Cancel its runs that have not ended; a standing sweep takes in no more checkpoints"},
    [DELETE] = {"delete", "Delete it when its runs have ended; runs and measurements stay"},
    {0},
};
static_assert(sizeof actions / sizeof actions[0] == ACTIONS + 1, "a word for every action");
static const struct {
    const char *method, *path; /* NULL: no request is sent before the wait */
} requests[ACTIONS] = {[SHOW] = {"GET", ""},
                       [EXTEND] = {"POST", "/extend"},
                       [RETRY] = {"POST", "/retry-failed"},
                       [CANCEL] = {"POST", "/cancel"},
                       [DELETE] = {"DELETE", ""}};

static int find_action(const char *word)
{
    int action = 0;
    while (action < ACTIONS && strcmp(actions[action].word, word) != 0) action++;
    return action;
}

static enum status sweep_fields(const char *word, struct fields *fields, struct error *error)
{
    static const char *const given[] = {"kind", "base", "grid", NULL};
    const int action = word != NULL ? find_action(word) : ACTIONS;
    if (action == EXTEND) return fields_add(fields, BODY, "", sweeps_extend_body, given, error);
    if (word == NULL || action < ACTIONS) return STATUS_OK;
    const struct kind *kind = kind_find(kinds, word);
    if (kind == NULL)
        return error_set(error, STATUS_INVALID, "no kind of run \"%.60s\"; see deltaq sweep --help", word);
    const enum status status = fields_add(fields, BASE, "/base", kind->params, NULL, error);
    return status == STATUS_OK ? fields_add(fields, BODY, "", sweeps_post_body, given, error) : status;
}

/* `fields`: the parameters of runs of the kind. */
static bool read_grid(struct verb *verb, const struct fields *fields, const char *kind, json_t *grid)
{
    const char *trajectory = options_text(verb->options, "--along");
    struct error error;
    for (const char *const *text = options_all(verb->options, "--grid"); *text != NULL; text++) {
        const size_t length = strcspn(*text, "=");
        const struct field *field = fields_find(fields, BASE, *text, length);
        if ((*text)[length] != '=') return (void)verb_usage(verb, "--grid %.100s: expected FIELD=VALUES", *text), false;
        if (field == NULL)
            return (void)verb_usage(verb, "--grid: a %s run has no parameter \"%.*s\"; see deltaq sweep %s --help",
                                    kind, (int)length, *text, kind),
                   false;
        if (json_object_get(grid, field->path) != NULL)
            return (void)verb_usage(verb, "--grid: %s is there twice: give all its values at once", field->path), false;
        json_t *values;
        if (fields_values(field, *text + length + 1, &values, &error) != STATUS_OK)
            return (void)verb_usage(verb, "--grid: %s", error.detail), false;
        if (json_object_set_new(grid, field->path, values) != 0) return false;
    }
    if (trajectory == NULL) return true;
    if (json_object_get(grid, "checkpoint") != NULL)
        return (void)verb_usage(verb, "either --along or --grid checkpoint, not both"), false;
    return json_object_set_new(grid, "checkpoint", json_pack("{ss}", "trajectory", trajectory)) == 0;
}

static json_t *make_body(struct verb *verb)
{
    struct error error;
    json_t *base = json_object(), *grid = json_object();
    json_t *body = json_pack("{ss so so}", "kind", verb->options->words[0], "base", base, "grid", grid);
    enum status status = fields_read(verb->options->fields, BODY, verb->options, body, &error);
    if (status == STATUS_OK) status = fields_read(verb->options->fields, BASE, verb->options, base, &error);
    if (status != STATUS_OK) (void)verb_usage(verb, "%s", error.detail);
    if (status == STATUS_OK && read_grid(verb, verb->options->fields, verb->options->words[0], grid)) return body;
    json_decref(body);
    return NULL;
}

static void print_counts(const json_t *sweep)
{
    const char *state;
    json_t *count;
    json_object_foreach(json_object_get(sweep, "runs"), state, count)
    {
        (void)printf("%-12s %lld\n", state, (long long)json_integer_value(count));
    }
}

static void conclude(struct verb *verb, const json_t *sweep)
{
    const json_t *counts = json_object_get(sweep, "runs");
    const json_int_t succeeded = json_integer_value(json_object_get(counts, "succeeded"));
    if (succeeded != json_integer_value(json_object_get(counts, "total"))) verb->exit_status = VERB_FAILED;
    if (options_given(verb->options, "--json"))
        verb_print(verb, sweep);
    else
        print_counts(sweep);
}

/* ---- a sweep that is there ---- */

/* Reads the further values like parameters of the sweep's kind, which the server tells. NULL: the error was printed. */
static json_t *make_extension(struct verb *verb, const char *path)
{
    struct client_reply reply;
    struct fields fields = {0};
    struct error error;
    json_t *grid = json_object(), *body = json_pack("{so}", "grid", grid);
    bool good = verb_call(verb, &(struct client_request){.method = "GET", .path = path}, &reply);
    const char *name = good ? json_string_value(json_object_get(reply.document, "kind")) : NULL;
    const struct kind *kind = name != NULL ? kind_find(kinds, name) : NULL;
    if (good && kind == NULL) (void)verb_usage(verb, "this program does not know the sweep's kind");
    good = good && kind != NULL;
    /* The rows resolve short names: "bits" for "method.bits". */
    if (good && (fields_add(&fields, BASE, "/base", kind->params, NULL, &error) != STATUS_OK ||
                 fields_rows(&fields, sweep_options, &error) != STATUS_OK)) {
        (void)verb_usage(verb, "%s", error.detail);
        good = false;
    }
    if (good) good = read_grid(verb, &fields, name, grid);
    if (good && fields_read(verb->options->fields, BODY, verb->options, body, &error) != STATUS_OK) {
        (void)verb_usage(verb, "%s", error.detail);
        good = false;
    }
    fields_reset(&fields);
    client_reply_reset(&reply);
    if (good) return body;
    json_decref(body);
    return NULL;
}

static void act(struct verb *verb, int action)
{
    const struct options *options = verb->options;
    struct buffer path = {0};
    struct client_reply reply = {0};
    json_t *body = NULL, *sweep = NULL;
    buffer_puts(&path, "/v1/sweeps/");
    client_escape(&path, options->words[1]);
    if (action == EXTEND && (body = make_extension(verb, path.bytes)) == NULL) goto done;
    if (requests[action].method == NULL) {
        if (verb_wait(verb, path.bytes, &sweep)) conclude(verb, sweep);
        goto done;
    }
    buffer_puts(&path, requests[action].path);
    const struct client_request request = {.method = requests[action].method,
                                           .path = path.bytes,
                                           .body = body,
                                           .accept = action == DELETE ? "*/*" : NULL}; /* an answer 204 has no
                                                                                        * document */
    if (!verb_call(verb, &request, &reply) || action == DELETE) goto done;
    const bool dry_run = json_is_true(json_object_get(body, "dry_run"));
    if (dry_run || (action == SHOW && options_given(options, "--json")))
        verb_print(verb, reply.document);
    else if (action == SHOW)
        print_counts(reply.document);
    else
        verb_follow(verb, "/v1/sweeps", reply.document, conclude);
done:
    json_decref(body);
    json_decref(sweep);
    client_reply_reset(&reply);
    buffer_reset(&path);
}

/* False, with a message, when an option does not belong to the action. */
static bool check_action(struct verb *verb, int action)
{
    const struct options *options = verb->options;
    const bool wait = options_given(options, "--wait");
    const bool values = options_given(options, "--grid") || options_given(options, "--along");
    if (action < ACTIONS && options->word_count != 2)
        return (void)verb_usage(verb, "expected the sweep after %s: its id or name", options->words[0]), false;
    if (action == ACTIONS && options->word_count > 1)
        return (void)verb_usage(verb, "unexpected word \"%.100s\"; see --help", options->words[1]), false;
    if (action == EXTEND && !values)
        return (void)verb_usage(verb, "extend needs --grid FIELD=VALUES, or --along TRAJECTORY for what it got since"),
               false;
    if (action < ACTIONS && action != EXTEND && values)
        return (void)verb_usage(verb, "--grid and --along go with extend, or with the kind of a new sweep"), false;
    if (wait && (action == SHOW || action == DELETE))
        return (void)verb_usage(verb, "%s does not wait; use deltaq sweep wait", options->words[0]), false;
    if (action == DELETE && options_given(options, "--json"))
        return (void)verb_usage(verb, "delete has no answer that --json could print"), false;
    return verb_check_timeout(verb, wait || action == WAIT);
}

static int sweep_run(const struct options *options)
{
    struct verb verb = {.options = options, .name = "sweep"};
    if (options->word_count == 0) return verb_usage(&verb, "expected the kind of its runs; see deltaq sweep --help");
    const int action = find_action(options->words[0]);
    if (!check_action(&verb, action)) return verb_close(&verb);
    const bool open = verb_open(options, "sweep", &verb);
    if (open && action < ACTIONS) {
        act(&verb, action);
    } else if (open) {
        json_t *body = make_body(&verb);
        if (body != NULL) verb_post(&verb, "/v1/sweeps", body, conclude);
        json_decref(body);
    }
    return verb_close(&verb);
}

const struct command command_sweep = {
    .name = "sweep",
    .usage = "KIND | ACTION SWEEP",
    .help =
        "Post the runs of a grid to a server, or show, wait for, extend, retry, cancel or delete a sweep; prints its"
        " id, or with --wait the counts of its runs",
    .options = sweep_options,
    .run = sweep_run,
    .words = 2,
    .fields = sweep_fields,
    .choices = sweep_kinds,
    .actions = actions,
    .notes = "deltaq sweep quantize --along pythia --method gptq --grid bits=3,4 --calibration.dataset text "
             "--evaluation.dataset held-out\ndeltaq sweep extend SWEEP --grid bits=2 --dry-run\n"
             "deltaq sweep extend SWEEP --grid bits=2 --wait\n\n" VERB_NOTES,
};
