#include "base/clock.h"
#include "cli/command.h"
#include "cli/verb.h"

#include <unistd.h>

enum { ANSWER_SECONDS = 5 };

static const struct option_row ready_options[] = {
    VERB_ROWS,
    {"--wait", NULL, NULL, NULL, OPTION_ONCE, "Ask each second until it is ready"},
    {"--timeout", "SECONDS", NULL, "0", OPTION_ONCE, "With --wait: stop asking after that; 0: never"},
    {0},
};

/* Prints the last answer. */
static void ask(struct verb *verb, bool wait)
{
    const struct client_request request = {.method = "GET", .path = "/readyz", .seconds = ANSWER_SECONDS};
    const double began = clock_seconds();
    for (;;) {
        struct client_reply reply = {0};
        struct error error;
        const enum status status = client_send(verb->client, &request, &reply, &error);
        const bool ready = status == STATUS_OK && reply.http < 300 && reply.document != NULL;
        const bool last = ready || !wait || (verb->timeout > 0 && clock_seconds() - began >= (double)verb->timeout);
        if (last && verb_told(verb, &request, status, &reply, &error)) (void)puts("ready");
        if (verb->exit_status == VERB_REFUSED) verb->exit_status = VERB_FAILED; /* it answered that it is not */
        client_reply_reset(&reply);
        if (last) return;
        (void)sleep(1);
    }
}

static int ready_run(const struct options *options)
{
    struct verb verb = {.options = options, .name = "ready"};
    const bool wait = options_given(options, "--wait");
    if (verb_check_timeout(&verb, wait) && verb_open(options, "ready", &verb)) ask(&verb, wait);
    return verb_close(&verb);
}

const struct command command_ready = {
    .name = "ready",
    .usage = "",
    .help = "Ask a server whether it is ready for requests, for health checks and scripts",
    .options = ready_options,
    .run = ready_run,
    .notes = "Exit status: 0 ready, 1 not ready, 2 command line not understood, 4 no answer.\n",
};
