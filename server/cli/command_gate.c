#include "cli/command.h"
#include "cli/verb.h"

#include <string.h>
#include <time.h>

enum { HOLD_SECONDS = 30 };

static const struct option_row gate_options[] = {
    {"--checkpoint", "CHECKPOINT", NULL, NULL, false, "The one to judge: id or TRAJECTORY/NAME"},
    VERB_ROWS,
    {"--wait", NULL, NULL, NULL, false, "While the verdict is pending, wait"},
    {"--timeout", "SECONDS", NULL, "0", false, "With --wait: stop waiting after that; 0: never"},
    VERB_JSON,
    {0},
};

/* A verdict by its name; what is not known is no pass. */
static int verdict_status(const json_t *document)
{
    const char *verdict = json_string_value(json_object_get(document, "verdict"));
    if (verdict != NULL && strcmp(verdict, "pass") == 0) return VERB_DONE;
    return verdict != NULL && strcmp(verdict, "pending") == 0 ? VERB_PENDING : VERB_FAILED;
}

static void print_number(const char *name, const json_t *value)
{
    if (json_is_number(value)) (void)printf(", %s %.6g", name, json_number_value(value));
}

static void print_verdict(const json_t *document)
{
    size_t index;
    const json_t *rule;
    (void)printf("%s\n", json_string_value(json_object_get(document, "verdict")));
    json_array_foreach(json_object_get(document, "rules"), index, rule)
    {
        const char *verdict = json_string_value(json_object_get(rule, "verdict"));
        const char *metric = json_string_value(json_object_get(rule, "metric"));
        (void)printf("  %-8s %s", verdict != NULL ? verdict : "", metric != NULL ? metric : "rule");
        print_number("value", json_object_get(rule, "value"));
        print_number("limit", json_object_get(rule, "limit"));
        (void)putchar('\n');
    }
}

static void make_path(const struct options *options, int64_t wait, struct buffer *path)
{
    buffer_reset(path);
    buffer_puts(path, "/v1/gates/");
    client_escape(path, options->words[1]);
    buffer_puts(path, "/verdict?checkpoint=");
    client_escape(path, options_text(options, "--checkpoint"));
    if (wait > 0) buffer_printf(path, "&wait=%lld", (long long)wait);
}

/* Asks until the verdict is there, or the time is over. */
static void check(struct verb *verb, int64_t timeout)
{
    const struct options *options = verb->options;
    const time_t end = time(NULL) + timeout;
    const bool wait = options_given(options, "--wait");
    struct buffer path = {0};
    bool more = true;
    while (more) {
        struct client_reply reply;
        int64_t seconds = wait ? HOLD_SECONDS : 0;
        if (timeout > 0 && seconds > end - time(NULL)) seconds = end > time(NULL) ? end - time(NULL) : 0;
        make_path(options, seconds, &path);
        const bool good = verb_call(verb, &(struct client_request){.method = "GET", .path = path.bytes}, &reply);
        const int verdict = good ? verdict_status(reply.document) : VERB_FAILED;
        more = good && wait && verdict == VERB_PENDING && (timeout == 0 || time(NULL) < end);
        if (good && !more) {
            verb->exit_status = verdict;
            if (options_given(options, "--json"))
                verb_print(verb, reply.document);
            else
                print_verdict(reply.document);
        }
        client_reply_reset(&reply);
    }
    buffer_reset(&path);
}

static int gate_run(const struct options *options)
{
    struct verb verb = {.options = options, .name = "gate"};
    struct error error;
    int64_t timeout;
    if (options->word_count != 2 || strcmp(options->words[0], "check") != 0)
        return verb_usage(&verb, "expected `deltaq gate check GATE --checkpoint CHECKPOINT`");
    if (!options_given(options, "--checkpoint")) return verb_usage(&verb, "--checkpoint is missing: the one to judge");
    if (options_integer(options, "--timeout", 0, INT32_MAX, &timeout, &error) != STATUS_OK)
        return verb_usage(&verb, "%s", error.detail);
    if (verb_open(options, "gate", &verb)) check(&verb, timeout);
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
             "4 no answer.\n",
};
