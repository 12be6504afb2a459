#include "cli/command.h"
#include "cli/verb.h"

#include <math.h>
#include <string.h>

/* The name of each row with a value is a query field of GET /v1/curves (a test compares them with the route). */
static const struct option_row curve_options[] = {
    {"--metric", "METRIC", NULL, "delta", OPTION_ONCE, "A number that runs measure; GET /v1/metrics lists them"},
    {"--x", "AXIS", NULL, "step", OPTION_ONCE, "step, tokens or learning_rate"},
    {"--method", "NAME", NULL, NULL, OPTION_ONCE, "Only this quantizer"},
    {"--bits", "N", NULL, NULL, OPTION_ONCE, "Only this width"},
    {"--dataset", "NAME", NULL, NULL, OPTION_ONCE, "Only what was evaluated on it"},
    {"--protocol", "ID", NULL, NULL, OPTION_ONCE, "Only this protocol of evaluation"},
    {"--calibration", "ID", NULL, NULL, OPTION_ONCE, "Only this calibration"},
    {"--points", "N", NULL, NULL, OPTION_ONCE, "Most points of a series; its extremes are kept"},
    {"--checkpoint", "NAME", NULL, NULL, OPTION_ONCE, "Keep the point of this TRAJECTORY/NAME or id, and rank it"},
    {"--csv", NULL, NULL, NULL, OPTION_ONCE, "Print CSV"},
    VERB_ROWS,
    VERB_JSON,
    {0},
};

static bool is_query(const struct option_row *row)
{
    return row->value != NULL && row->environment == NULL;
}

static void make_path(const struct options *options, struct buffer *path)
{
    const char *separator = "?";
    buffer_puts(path, "/v1/curves");
    for (int i = 0; i < options->word_count; i++) {
        buffer_printf(path, "%strajectory=", separator);
        client_escape(path, options->words[i]);
        separator = "&";
    }
    for (const struct option_row *row = curve_options; row->flag != NULL; row++) {
        const char *text = is_query(row) ? options_text(options, row->flag) : NULL;
        if (text == NULL) continue;
        buffer_printf(path, "&%s=", row->flag + 2);
        client_escape(path, text);
    }
}

static void print_number(const json_t *value)
{
    if (json_is_number(value))
        (void)printf(" %12.6g", json_number_value(value));
    else
        (void)printf(" %12s", "-");
}

/* Counts of tokens have up to 13 digits, all of which tell checkpoints apart. */
static void print_place(const json_t *x)
{
    if (json_is_integer(x))
        (void)printf("%16lld", (long long)json_integer_value(x));
    else
        (void)printf("%16.10g", json_number_value(x));
}

/* Prints the series one after another, a line for each point. */
static void print_table(const json_t *curves)
{
    static const char *const columns[] = {"y", "low", "high"};
    size_t index, at;
    const json_t *series, *point;
    if (json_array_size(json_object_get(curves, "series")) == 0)
        (void)fprintf(stderr, "deltaq curve: nothing that was asked for has both %s and %s\n",
                      json_string_value(json_object_get(curves, "x")),
                      json_string_value(json_object_get(curves, "metric")));
    json_array_foreach(json_object_get(curves, "series"), index, series)
    {
        const char *label = json_string_value(json_object_get(series, "label")); /* "": nothing to tell apart */
        (void)printf("%s%s%s%s\n%16s %12s %12s %12s  %s\n", index > 0 ? "\n" : "",
                     json_string_value(json_object_get(series, "trajectory")),
                     label != NULL && label[0] != '\0' ? ", " : "", label != NULL ? label : "",
                     json_string_value(json_object_get(curves, "x")),
                     json_string_value(json_object_get(curves, "metric")), "low", "high", "checkpoint");
        json_array_foreach(json_object_get(series, "points"), at, point)
        {
            const char *name = json_string_value(json_object_get(point, "checkpoint_name"));
            if (name == NULL) name = json_string_value(json_object_get(point, "checkpoint"));
            print_place(json_object_get(point, "x"));
            for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
                print_number(json_object_get(point, columns[i]));
            (void)printf("  %s\n", name != NULL ? name : "");
        }
    }
}

static void ask(struct verb *verb)
{
    const struct options *options = verb->options;
    struct buffer path = {0};
    struct client_reply reply;
    const bool csv = options_given(options, "--csv");
    make_path(options, &path);
    const struct client_request request = {.method = "GET", .path = path.bytes, .accept = csv ? "text/csv" : NULL};
    if (verb_call(verb, &request, &reply)) {
        if (csv)
            (void)fwrite(reply.body.bytes, 1, reply.body.length, stdout);
        else if (options_given(options, "--json"))
            verb_print(verb, reply.document);
        else
            print_table(reply.document);
    }
    client_reply_reset(&reply);
    buffer_reset(&path);
}

static int curve_run(const struct options *options)
{
    struct verb verb = {.options = options, .name = "curve"};
    if (options->word_count == 0) return verb_usage(&verb, "expected a trajectory; see deltaq curve --help");
    if (options_given(options, "--csv") && options_given(options, "--json"))
        return verb_usage(&verb, "either --csv or --json, not both");
    if (verb_open(options, "curve", &verb)) ask(&verb);
    return verb_close(&verb);
}

const struct command command_curve = {
    .name = "curve",
    .usage = "TRAJECTORY...",
    .help = "Print a metric along trajectories, as a table, CSV or JSON",
    .options = curve_options,
    .run = curve_run,
    .words = OPTIONS_WORDS,
    .notes = VERB_NOTES,
};
