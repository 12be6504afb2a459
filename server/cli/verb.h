/* verb.h: shared code of the commands that talk to a running server: its address, error messages, waiting for a run,
 * and the exit status. */
#ifndef CLI_VERB_H
#define CLI_VERB_H

#include "cli/options.h"
#include "client/client.h"

/* The exit status of every verb. */
enum {
    VERB_DONE = 0,
    VERB_FAILED = 1,      /* a run failed or was cancelled, a gate failed */
    VERB_USAGE = 2,       /* the command line was not understood */
    VERB_PENDING = 3,     /* not finished, or not measured yet */
    VERB_UNREACHABLE = 4, /* no answer from the server */
    VERB_REFUSED = 5      /* the server answered with a problem, or with something else than asked */
};
#define VERB_NOTES                                                                                                \
    "Exit status: 0 done, 1 failed, 2 command line not understood, 3 not finished yet, 4 no answer, 5 refused.\n" \
    "The client file is {\"url\": …, \"token\": …, \"cacert\": …}; with a token only its owner may read it.\n"

/* Option rows that all verbs have. */
#define VERB_ROWS                                                                                                   \
    {"--url", "URL", "DELTAQ_URL", NULL, OPTION_ONCE, "The server (default http://127.0.0.1:8642)"},                \
        {"--token", "TOKEN", "DELTAQ_TOKEN", NULL, OPTION_ONCE, "Access token, where the server wants one"},        \
        {"--cacert", "FILE", "DELTAQ_CACERT", NULL, OPTION_ONCE, "PEM file to check https with, not the system's"}, \
    {                                                                                                               \
        "--client-file", "FILE", "DELTAQ_CLIENT_FILE", NULL, OPTION_ONCE,                                           \
            "JSON with what these three do not give (default ~/.config/deltaq/client.json)"                         \
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
    const char *name; /* the command's name, which begins its error messages */
    struct client *client;
    int64_t timeout; /* --timeout, where the command has it; 0: none */
    int exit_status;
};

/* Reads the server's address and --timeout. False: the error was printed on stderr, and verb->exit_status is set.
 * verb_close in any case. */
bool verb_open(const struct options *options, const char *name, struct verb *verb);
int verb_close(struct verb *verb); /* verb->exit_status */

/* False, with a message, when --timeout was given to a command that does not wait. */
bool verb_check_timeout(struct verb *verb, bool waits);

/* Sends one request. True for an answer below 300 that has a document (request->accept may ask for something else).
 * Otherwise prints the server's detail on stderr, with the flag of each pointer, sets verb->exit_status and returns
 * false. The caller resets *reply in any case. */
bool verb_call(struct verb *verb, const struct client_request *request, struct client_reply *reply);
/* Prints the outcome of a client_send in the same way. */
bool verb_told(struct verb *verb, const struct client_request *request, enum status status,
               const struct client_reply *reply, const struct error *error);

/* Waits until the run or sweep at `path` has ended, or the verdict there is not pending; the server delays its answer
 * because of ?wait=. *out is the last document, owned by the caller, or NULL. False as above, and VERB_PENDING when
 * --timeout is over. A server that does not answer is retried for a minute, but not beyond --timeout. */
bool verb_wait(struct verb *verb, const char *path, json_t **out);

/* Handles the server's answer about a run or sweep below `route`: prints its id, or with --json the document; with
 * --wait, waits for its end and calls `conclude`. */
void verb_follow(struct verb *verb, const char *route, const json_t *document,
                 void (*conclude)(struct verb *verb, const json_t *document));

/* Posts a run or sweep to `route` and follows it; prints the answer of a dry run. */
void verb_post(struct verb *verb, const char *route, const json_t *body,
               void (*conclude)(struct verb *verb, const json_t *document));

/* Prints an error of the command line; returns VERB_USAGE, which becomes the verb's exit status. */
int verb_usage(struct verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));
int verb_error(struct verb *verb, const struct error *error);

/* Prints a document on stdout, for --json. */
void verb_print(struct verb *verb, const json_t *document);

#endif
