#include "cli/command.h"
#include "cli/verb.h"

#include <string.h>

static const struct option_row gate_options[] = {
    {"--checkpoint", "CHECKPOINT", NULL, NULL, OPTION_ONCE, "The one to judge: id or TRAJECTORY/NAME"},
    VERB_ROWS,
    {"--wait", NULL, NULL, NULL, OPTION_ONCE, "While the verdict is pending, wait"},
    {"--timeout", "SECONDS", NULL, "0", OPTION_ONCE, "With --wait: stop waiting after that; 0: never"},
    VERB_JSON,
    {0},
};

/* The exit status of a verdict; an unknown verdict does not pass. */
static int verdict_status(const json_t *document)
{
    const char *verdict = json_string_value(json_object_get(document, "verdict"));
    if (verdict == NULL) {
        (void)fputs("deltaq gate: the answer has no verdict; is this a server of deltaq?\n", stderr);
        return VERB_REFUSED;
    }
    if (strcmp(verdict, "pass") == 0) return VERB_DONE;
    return strcmp(verdict, "pending") == 0 ? VERB_PENDING : VERB_FAILED;
}

static void print_number(const char *name, const json_t *value)
{
    if (json_is_number(value)) (void)printf(", %s %.6g", name, json_number_value(value));
}

static void print_interval(const json_t *interval)
{
    if (json_array_size(interval) == 2)
        (void)printf(" (95 %% %.6g to %.6g)", json_number_value(json_array_get(interval, 0)),
                     json_number_value(json_array_get(interval, 1)));
}

/* "" is full precision, which has no label. */
static void print_series(const json_t *series)
{
    const char *label = json_string_value(series);
    if (label != NULL && label[0] != '\0') (void)printf(" of %s", label);
}

/* Where the series changes, by steps, with the interval of the place. */
static void print_change(const json_t *change)
{
    const json_t *interval = json_object_get(change, "interval");
    if (!json_is_object(change)) return;
    (void)printf(", %s changes between step %.15g and %.15g (95 %% %.15g to %.15g)",
                 json_string_value(json_object_get(change, "kind")),
                 json_number_value(json_object_get(json_object_get(change, "after"), "x")),
                 json_number_value(json_object_get(json_object_get(change, "before"), "x")),
                 json_number_value(json_array_get(interval, 0)), json_number_value(json_array_get(interval, 1)));
}

/* A line a rule: its verdict, what it is about, and why there is none. */
static void print_verdict(const json_t *document)
{
    size_t index;
    const json_t *item;
    const char *whole = json_string_value(json_object_get(document, "verdict"));
    if (whole != NULL) (void)puts(whole);
    json_array_foreach(json_object_get(document, "rules"), index, item)
    {
        const char *verdict = json_string_value(json_object_get(item, "verdict"));
        const char *metric = json_string_value(json_object_get(json_object_get(item, "rule"), "metric"));
        const char *reason = json_string_value(json_object_get(item, "reason"));
        (void)printf("  %-8s %s", verdict != NULL ? verdict : "", metric != NULL ? metric : "integrity");
        print_series(json_object_get(item, "series"));
        print_number("value", json_object_get(item, "value"));
        print_interval(json_object_get(item, "interval"));
        print_number("limit", json_object_get(item, "limit"));
        print_change(json_object_get(item, "change"));
        (void)printf("%s%s\n", reason != NULL ? ": " : "", reason != NULL ? reason : "");
    }
}

static void conclude(struct verb *verb, const json_t *document)
{
    verb->exit_status = verdict_status(document);
    if (options_given(verb->options, "--json"))
        verb_print(verb, document);
    else
        print_verdict(document);
}

/* A verdict that is still pending at the timeout is printed as well. */
static void check(struct verb *verb)
{
    struct buffer path = {0};
    struct client_reply reply = {0};
    json_t *waited = NULL;
    buffer_puts(&path, "/v1/gates/");
    client_escape(&path, verb->options->words[1]);
    buffer_puts(&path, "/verdict?checkpoint=");
    client_escape(&path, options_text(verb->options, "--checkpoint"));
    if (options_given(verb->options, "--wait")) {
        if (verb_wait(verb, path.bytes, &waited) || (verb->exit_status == VERB_PENDING && waited != NULL))
            conclude(verb, waited);
    } else if (verb_call(verb, &(struct client_request){.method = "GET", .path = path.bytes}, &reply)) {
        conclude(verb, reply.document);
    }
    json_decref(waited);
    client_reply_reset(&reply);
    buffer_reset(&path);
}

static int gate_run(const struct options *options)
{
    struct verb verb = {.options = options, .name = "gate"};
    if (options->word_count != 2 || strcmp(options->words[0], "check") != 0)
        return verb_usage(&verb, "expected `deltaq gate check GATE --checkpoint CHECKPOINT`");
    if (!options_given(options, "--checkpoint")) return verb_usage(&verb, "--checkpoint is missing: the one to judge");
    if (!verb_check_timeout(&verb, options_given(options, "--wait"))) return verb_close(&verb);
    if (verb_open(options, "gate", &verb)) check(&verb);
    return verb_close(&verb);
}

const struct command command_gate = {
    .name = "gate",
    .usage = "check GATE",
    .help = "Ask for a gate's verdict on a checkpoint, for a step of continuous integration",
    .options = gate_options,
    .run = gate_run,
    .words = 2,
    .notes = "Exit status: 0 pass, 1 fail, 3 pending (not measured or not read yet), 2 command line not understood, "
             "4 no answer, 5 refused (no such gate or checkpoint).\n",
};
