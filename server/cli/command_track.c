#include "cli/command.h"

#include "base/words.h"
#include "cli/verb.h"
#include "track/track.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 6, LEDGER_PATH = PATH_MAX + 16 };

static const struct option_row track_options[] = {
    {"--trajectory", "NAME", NULL, NULL, OPTION_COLONS, "Only this one; all without it"},
    {"--follow", NULL, NULL, NULL, OPTION_ONCE, "Stay, and send what is measured from now on"},
    {"--every", "SECONDS", NULL, "10", OPTION_ONCE, "With --follow: how often the server is asked for changes"},
    {"--ledger", "FILE", NULL, NULL, OPTION_ONCE,
     "What was sent is kept there; for files DESTINATION.ledger unless it is given"},
    VERB_ROWS,
    {0},
};

static const char *const *track_words(void)
{
    return exporter_names;
}

static bool ledger_path(struct verb *verb, const struct exporter *exporter, const char *destination, char *out)
{
    const char *given = options_text(verb->options, "--ledger");
    size_t length = strlen(destination);
    while (length > 1 && destination[length - 1] == '/') length--;
    if (given == NULL && !exporter->beside)
        return (void)verb_usage(verb, "--ledger is missing: a file on this machine that keeps what was sent"), false;
    /* For SQLite these are databases that end with the process, and all points would be sent again. */
    if (given != NULL && (given[0] == '\0' || given[0] == ':'))
        return (void)verb_usage(verb, "--ledger must be the path of a file, found \"%.100s\"", given), false;
    const int used = given != NULL ? snprintf(out, LEDGER_PATH, "%s", given)
                                   : snprintf(out, LEDGER_PATH, "%.*s.ledger", (int)length, destination);
    if (used < LEDGER_PATH) return true;
    return (void)verb_usage(verb, "the path is too long"), false;
}

/* A server or tracker that does not answer is retried: for ever with --follow, a few times without. */
static void work(struct verb *verb, struct track *track, bool follow, int64_t every)
{
    struct track_counts counts = {0};
    struct error error;
    int away = 0;
    for (;;) {
        const int64_t before = counts.sent;
        counts.again = false;
        const enum status status = track_round(track, &counts, &error);
        if (counts.again)
            (void)fputs("deltaq track: the server's database is another one, or was restored from a backup; all of its"
                        " measurements are read again, and points that the ledger has are not sent twice\n",
                        stderr);
        if (status != STATUS_OK && (status != STATUS_UNAVAILABLE || (!follow && away + 1 == TRIES))) {
            (void)verb_error(verb, &error);
            if (status == STATUS_UNAVAILABLE) verb->exit_status = VERB_UNREACHABLE;
            break;
        }
        if (counts.sent > before && follow) (void)fprintf(stderr, "%lld points sent\n", (long long)counts.sent);
        if (status == STATUS_OK && !follow) break;
        away = status == STATUS_OK ? 0 : away + 1;
        if (away > 0) (void)fprintf(stderr, "deltaq track: %s; trying again\n", error.detail);
        (void)sleep(track_rest(away, (unsigned)every));
    }
    if (counts.left_out > 0)
        (void)fprintf(stderr, "deltaq track: %lld rows of checkpoints without a step were left out\n",
                      (long long)counts.left_out);
    if (verb->exit_status == VERB_DONE) (void)printf("%lld points sent\n", (long long)counts.sent);
}

static void track_all(struct verb *verb, const struct exporter *exporter, const char *destination, int64_t every)
{
    char ledger[LEDGER_PATH];
    struct error error;
    struct track *track = NULL;
    if (!ledger_path(verb, exporter, destination, ledger)) return;
    const struct track_options how = {.client = verb->client,
                                      .exporter = exporter,
                                      .destination = destination,
                                      .ledger = ledger,
                                      .trajectories = options_all(verb->options, "--trajectory")};
    if (track_open(&how, &track, &error) != STATUS_OK)
        (void)verb_error(verb, &error);
    else
        work(verb, track, options_given(verb->options, "--follow"), every);
    track_close(track);
}

static int unknown_tracker(struct verb *verb, const char *word)
{
    char known[100] = "";
    for (const char *const *name = exporter_names; *name != NULL; name++) words_add(known, sizeof known, "%s", *name);
    return verb_usage(verb, "no tracker is named \"%.60s\"; there are %s", word, known);
}

static int track_run(const struct options *options)
{
    struct verb verb = {.options = options, .name = "track"};
    struct error error;
    int64_t every;
    const struct exporter *exporter = options->word_count > 0 ? exporter_find(options->words[0]) : NULL;
    if (options->word_count > 0 && exporter == NULL) return unknown_tracker(&verb, options->words[0]);
    if (exporter == NULL || options->word_count != 2)
        return verb_usage(&verb, "expected a tracker and where it is; see deltaq track --help");
    if (options_integer(options, "--every", 1, 86400, &every, &error) != STATUS_OK)
        return verb_usage(&verb, "%s", error.detail);
    if (verb_open(options, "track", &verb)) track_all(&verb, exporter, options->words[1], every);
    return verb_close(&verb);
}

const struct command command_track = {
    .name = "track",
    .usage = "TRACKER DESTINATION",
    .help = "Send a server's measurements to an experiment tracker, each once",
    .options = track_options,
    .run = track_run,
    .words = 2,
    .choices = track_words,
    .notes =
        "tensorboard LOGDIR   event files, a directory for each trajectory and series\n"
        "mlflow URL           an experiment for each trajectory, a run for each series; credentials of MLflow's\n"
        "                     client: MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, MLFLOW_TRACKING_TOKEN\n"
        "ndjson FILE          lines of JSON, for scripts and other trackers (examples/wandb_sync.py)\n\n"
        "It may be killed at any time: the next call with the same ledger sends what is missing, and nothing"
        " twice.\n\n" VERB_NOTES,
};
