#include "cli/command.h"
#include "cli/verb.h"
#include "kinds/kind.h"
#include "resources/handlers.h"

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

static enum status sweep_fields(const char *word, struct fields *fields, struct error *error)
{
    static const char *const given[] = {"kind", "base", "grid", NULL};
    if (word == NULL) return STATUS_OK;
    const struct kind *kind = kind_find(kinds, word);
    if (kind == NULL)
        return error_set(error, STATUS_INVALID, "no kind of run \"%.60s\"; see deltaq sweep --help", word);
    const enum status status = fields_add(fields, BASE, "/base", kind->params, NULL, error);
    return status == STATUS_OK ? fields_add(fields, BODY, "", sweeps_post_body, given, error) : status;
}

static bool read_grid(struct verb *verb, json_t *grid)
{
    const char *trajectory = options_text(verb->options, "--along");
    struct error error;
    for (const char *const *text = options_all(verb->options, "--grid"); *text != NULL; text++) {
        const size_t length = strcspn(*text, "=");
        const struct field *field = fields_find(verb->options->fields, BASE, *text, length);
        if ((*text)[length] != '=') return (void)verb_usage(verb, "--grid %.100s: expected FIELD=VALUES", *text), false;
        if (field == NULL)
            return (void)verb_usage(verb, "--grid: a %s run has no parameter \"%.*s\"", verb->options->words[0],
                                    (int)length, *text),
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
    if (status == STATUS_OK && read_grid(verb, grid)) return body;
    json_decref(body);
    return NULL;
}

static void conclude(struct verb *verb, const json_t *sweep)
{
    const char *state;
    json_t *count, *counts = json_object_get(sweep, "runs");
    const json_int_t succeeded = json_integer_value(json_object_get(counts, "succeeded"));
    if (succeeded != json_integer_value(json_object_get(counts, "total"))) verb->exit_status = VERB_FAILED;
    if (options_given(verb->options, "--json")) {
        verb_print(verb, sweep);
        return;
    }
    json_object_foreach(counts, state, count)(void) printf("%-12s %lld\n", state, (long long)json_integer_value(count));
}

static int sweep_run(const struct options *options)
{
    struct verb verb = {.options = options, .name = "sweep"};
    if (options->word_count == 0) return verb_usage(&verb, "expected the kind of its runs; see deltaq sweep --help");
    if (verb_open(options, "sweep", &verb)) {
        json_t *body = make_body(&verb);
        if (body != NULL) verb_post(&verb, "/v1/sweeps", body, conclude);
        json_decref(body);
    }
    return verb_close(&verb);
}

const struct command command_sweep = {
    .name = "sweep",
    .usage = "KIND",
    .help = "Post the runs of a grid to a server; prints the sweep's id, or with --wait the counts of its runs",
    .options = sweep_options,
    .run = sweep_run,
    .words = 1,
    .fields = sweep_fields,
    .choices = sweep_kinds,
    .notes = "deltaq sweep quantize --along pythia --method gptq --grid bits=3,4 --calibration.dataset text "
             "--evaluation.dataset held-out\n\n" VERB_NOTES,
};
