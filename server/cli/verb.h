/* verb.h: what the commands that speak to a running server have in common: where it is, how its problems are told, how
 * a run is waited for, and what the exit status means. */
#ifndef CLI_VERB_H
#define CLI_VERB_H

#include "cli/options.h"
#include "client/client.h"

/* The exit status of every verb. */
enum {
    VERB_DONE = 0,
    VERB_FAILED = 1,     /* the server refused, a run failed or was cancelled, a gate failed */
    VERB_USAGE = 2,      /* the command line was not understood */
    VERB_PENDING = 3,    /* not finished, not measured yet */
    VERB_UNREACHABLE = 4 /* no answer from the server */
};
#define VERB_NOTES                                                                                                \
    "Exit status: 0 done, 1 refused or failed, 2 command line not understood, 3 not finished yet, 4 no answer.\n" \
    "URL, token and cacert may stand in a file instead, as {\"url\": …, \"token\": …}, which only its owner may read.\n"

/* Rows that all of them have. */
#define VERB_ROWS                                                                                                   \
    {"--url", "URL", "DELTAQ_URL", NULL, OPTION_ONCE, "The server (default http://127.0.0.1:8642)"},                \
        {"--token", "TOKEN", "DELTAQ_TOKEN", NULL, OPTION_ONCE, "Access token, where the server wants one"},        \
        {"--cacert", "FILE", "DELTAQ_CACERT", NULL, OPTION_ONCE, "PEM file to check https with, not the system's"}, \
    {                                                                                                               \
        "--client-file", "FILE", "DELTAQ_CLIENT_FILE", NULL, OPTION_ONCE,                                           \
            "Where they may stand instead (default ~/.config/deltaq/client.json)"                                   \
    }
#define VERB_JSON                                                                       \
    {                                                                                   \
        "--json", NULL, NULL, NULL, OPTION_ONCE, "Print the server's answer as it came" \
    }
#define VERB_WAIT                                                                                          \
    {"--wait", NULL, NULL, NULL, OPTION_ONCE, "Wait until it has ended, with its progress on a terminal"}, \
    {                                                                                                      \
        "--timeout", "SECONDS", NULL, "0", OPTION_ONCE, "With --wait: stop waiting after that; 0: never"   \
    }

struct verb {
    const struct options *options;
    const char *name; /* of the command, before what went wrong */
    struct client *client;
    int exit_status;
};

/* Reads where the server is. False: it was told on stderr, and verb->exit_status says how to end. verb_close in any
 * case. */
bool verb_open(const struct options *options, const char *name, struct verb *verb);
int verb_close(struct verb *verb); /* verb->exit_status */

/* One request; anything but an answer below 300, with a document unless request->accept asks for something else, is
 * told on stderr with the server's detail, each pointer and its flag. Then false, and verb->exit_status is set. The
 * caller resets *reply in any case. */
bool verb_call(struct verb *verb, const struct client_request *request, struct client_reply *reply);
/* What became of a client_send, told likewise. */
bool verb_told(struct verb *verb, const struct client_request *request, enum status status,
               const struct client_reply *reply, const struct error *error);

/* Waits until the run or sweep at `path` has ended, or the verdict there is not pending; the server holds its answer
 * back for ?wait=. *out is the last document, the caller's, or NULL. False as above; with --timeout also VERB_PENDING.
 * A server that is away for a minute is waited for. */
bool verb_wait(struct verb *verb, const char *path, json_t **out);

/* Of a run or sweep below `route` that the server answered with: prints its id, or with --json all of it; with --wait,
 * what `conclude` makes of it when it has ended. */
void verb_follow(struct verb *verb, const char *route, const json_t *document,
                 void (*conclude)(struct verb *verb, const json_t *document));

/* Posts a run or sweep to `route` and follows it; of a dry run, prints the answer. */
void verb_post(struct verb *verb, const char *route, const json_t *body,
               void (*conclude)(struct verb *verb, const json_t *document));

/* Tells a fault of the command line; returns VERB_USAGE, which is then the verb's. */
int verb_usage(struct verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));
int verb_error(struct verb *verb, const struct error *error);

/* Prints a document on stdout, for --json. */
void verb_print(struct verb *verb, const json_t *document);

#endif
