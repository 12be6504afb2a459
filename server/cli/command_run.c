#include "cli/command.h"
#include "cli/verb.h"
#include "cli/verb_result.h"
#include "kinds/kind.h"
#include "resources/handlers.h"

#include <string.h>

enum { PARAMS, BODY }; /* the objects that flags fill */

static const struct option_row run_options[] = {VERB_ROWS, VERB_WAIT, VERB_JSON, {0}};

static const char *const *run_kinds(void)
{
    return kind_names;
}

static enum status run_fields(const char *word, struct fields *fields, struct error *error)
{
    static const char *const given[] = {"kind", "params", NULL};
    if (word == NULL) return STATUS_OK;
    const struct kind *kind = kind_find(kinds, word);
    if (kind == NULL) return error_set(error, STATUS_INVALID, "no kind of run \"%.60s\"; see deltaq run --help", word);
    const enum status status = fields_add(fields, PARAMS, "/params", kind->params, NULL, error);
    return status == STATUS_OK ? fields_add(fields, BODY, "", runs_post_body, given, error) : status;
}

/* The words after the kind are the value of its first parameter: a checkpoint, a repository, or a list of
 * checkpoints. */
static bool add_words(struct verb *verb, json_t *params)
{
    const struct options *options = verb->options;
    const struct field *first = &options->fields->items[0];
    const bool list = first->params[0]->type == PARAM_LIST || first->params[0]->type == PARAM_ARRAY;
    struct error error;
    json_t *value = list ? json_array() : NULL;
    if (options->word_count == 1 || (!list && options->word_count > 2) || options_given(options, first->flags[0])) {
        json_decref(value);
        if (options->word_count == 1) return true;
        return (void)verb_usage(verb, "unexpected word \"%.100s\"; see --help",
                                options->words[options->word_count - 1]),
               false;
    }
    enum status status = STATUS_OK;
    if (!list) status = fields_value(first, options->words[1], &value, &error);
    for (int i = 1; list && status == STATUS_OK && i < options->word_count; i++)
        if (json_array_append_new(value, json_string(options->words[i])) != 0)
            status = error_set(&error, STATUS_INVALID, "\"%.100s\" is not UTF-8", options->words[i]);
    if (status == STATUS_OK) return json_object_set_new(params, first->path, value) == 0;
    json_decref(value);
    return (void)verb_usage(verb, "%s", error.detail), false;
}

static json_t *make_body(struct verb *verb)
{
    const struct options *options = verb->options;
    struct error error;
    json_t *params = json_object(), *body = json_pack("{ssso}", "kind", options->words[0], "params", params);
    enum status status = fields_read(options->fields, BODY, options, body, &error);
    if (status == STATUS_OK) status = fields_read(options->fields, PARAMS, options, params, &error);
    if (status != STATUS_OK) (void)verb_usage(verb, "%s", error.detail);
    if (status == STATUS_OK && add_words(verb, params)) return body;
    json_decref(body);
    return NULL;
}

/* Sets the exit status of a run that has ended. */
static void conclude(struct verb *verb, const json_t *run)
{
    const char *state = json_string_value(json_object_get(run, "state"));
    const bool json = options_given(verb->options, "--json");
    if (state != NULL && strcmp(state, "succeeded") != 0) verb->exit_status = VERB_FAILED;
    if (json) {
        verb_print(verb, run);
        return;
    }
    verb_result_print(run, stdout);
    if (verb->exit_status != VERB_FAILED) return;
    const char *detail = json_string_value(json_object_get(json_object_get(run, "error"), "detail"));
    (void)fprintf(stderr, "deltaq run: %s%s%s\n", state != NULL ? state : "failed", detail != NULL ? ": " : "",
                  detail != NULL ? detail : "");
}

static int run_run(const struct options *options)
{
    struct verb verb = {.options = options, .name = "run"};
    if (options->word_count == 0) return verb_usage(&verb, "expected the kind of the run; see deltaq run --help");
    if (!verb_check_timeout(&verb, options_given(options, "--wait"))) return verb_close(&verb);
    if (verb_open(options, "run", &verb)) {
        json_t *body = make_body(&verb);
        if (body != NULL) verb_post(&verb, "/v1/runs", body, conclude);
        json_decref(body);
    }
    return verb_close(&verb);
}

const struct command command_run = {
    .name = "run",
    .usage = "KIND [WORD]...",
    .help = "Post a run to a server; prints its id, or with --wait its result",
    .options = run_options,
    .run = run_run,
    .words = OPTIONS_WORDS,
    .fields = run_fields,
    .choices = run_kinds,
    .notes =
        "The word after KIND is the first parameter of the list: deltaq run quantize pythia/step1000 --method gptq "
        "--bits 4\n\n" VERB_NOTES,
};
