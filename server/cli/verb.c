#include "cli/verb.h"

#include "cli/fields.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VERB_PATH = 4096 };

static const char default_url[] = "http://127.0.0.1:8642";

int verb_usage(struct verb *verb, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(stderr, "deltaq %s: ", verb->name);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    return verb->exit_status = VERB_USAGE;
}

int verb_error(struct verb *verb, const struct error *error)
{
    (void)fprintf(stderr, "deltaq %s: %s\n", verb->name, error->detail);
    return verb->exit_status = VERB_FAILED;
}

/* ---- the server's address ---- */

static bool default_file(char path[VERB_PATH])
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config != NULL && config[0] == '/')
        return snprintf(path, VERB_PATH, "%s/deltaq/client.json", config) < VERB_PATH;
    return home != NULL && snprintf(path, VERB_PATH, "%s/.config/deltaq/client.json", home) < VERB_PATH;
}

/* False for what would be passed over, so that the work went to another server. */
static bool check_file(struct verb *verb, const char *path, const json_t *file)
{
    static const char *const names[] = {"url", "token", "cacert"};
    if (!json_is_object(file)) return (void)verb_usage(verb, "%s: expected a JSON object", path), false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_t *value = json_object_get(file, names[i]);
        if (value != NULL && !json_is_string(value))
            return (void)verb_usage(verb, "%s: \"%s\" must be a text", path, names[i]), false;
    }
    return true;
}

/* *out stays NULL when no file exists and none was named. */
static bool read_file(struct verb *verb, json_t **out)
{
    char path[VERB_PATH];
    json_error_t fault;
    struct stat found;
    const char *given = options_text(verb->options, "--client-file");
    if (given == NULL && !default_file(path)) return true;
    if (given != NULL) (void)snprintf(path, sizeof path, "%s", given);
    if (stat(path, &found) != 0) {
        if (given == NULL && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) return true;
        return (void)verb_usage(verb, "--client-file %s: %s", path, strerror(errno)), false;
    }
    *out = json_load_file(path, JSON_REJECT_DUPLICATES, &fault);
    if (*out == NULL) return (void)verb_usage(verb, "%s: line %d: %s", path, fault.line, fault.text), false;
    if (!check_file(verb, path, *out)) return false;
    if (json_object_get(*out, "token") != NULL && (found.st_mode & 077) != 0)
        return (void)verb_usage(verb, "%s holds a token and others may read it: chmod 600 it", path), false;
    return true;
}

/* Before the first request: work that was posted stays, whatever is found out about the command line afterwards. */
static bool read_timeout(struct verb *verb)
{
    struct error error;
    if (options_text(verb->options, "--timeout") == NULL || /* not an option of this command */
        options_integer(verb->options, "--timeout", 0, INT32_MAX, &verb->timeout, &error) == STATUS_OK)
        return true;
    return (void)verb_usage(verb, "%s", error.detail), false;
}

bool verb_open(const struct options *options, const char *name, struct verb *verb)
{
    struct error error;
    json_t *file = NULL;
    *verb = (struct verb){.options = options, .name = name};
    if (!read_file(verb, &file)) {
        json_decref(file);
        return false;
    }
    const char *url = options_text(options, "--url"), *token = options_text(options, "--token");
    if (token == NULL) token = json_string_value(json_object_get(file, "token"));
    /* A token is sent only to the server that it is written beside. */
    if (url != NULL && options_text(options, "--token") == NULL) token = NULL;
    if (url == NULL) url = json_string_value(json_object_get(file, "url"));
    const char *authorities = options_text(options, "--cacert");
    if (authorities == NULL) authorities = json_string_value(json_object_get(file, "cacert"));
    const enum status status = client_new(url != NULL ? url : default_url, token, authorities, &verb->client, &error);
    json_decref(file);
    if (status != STATUS_OK) return (void)verb_usage(verb, "%s", error.detail), false;
    return read_timeout(verb);
}

bool verb_check_timeout(struct verb *verb, bool waits)
{
    if (waits || !options_given(verb->options, "--timeout")) return true;
    return (void)verb_usage(verb, "--timeout goes with --wait"), false;
}

int verb_close(struct verb *verb)
{
    client_free(verb->client);
    verb->client = NULL;
    return verb->exit_status;
}

/* ---- problems ---- */

/* The flag of a pointer: "/params/method/bits" -> "--bits"; NULL: no flag of this command. */
static const char *flag_of(const struct verb *verb, const char *pointer)
{
    const struct fields *fields = verb->options->fields;
    for (int64_t i = 0; fields != NULL && i < fields->count; i++) {
        const int object = fields->items[i].object;
        const size_t length = strlen(fields->objects[object]);
        if (strncmp(pointer, fields->objects[object], length) != 0) continue;
        const struct field *field = fields_at(fields, object, pointer + length);
        if (field != NULL) return field->flags[FIELDS_SHORT];
    }
    return NULL;
}

/* "--bits (/params/method/bits)"; a pointer that no flag has, with the text that was sent there. */
static void put_place(const struct verb *verb, const json_t *body, const char *pointer)
{
    const char *flag = flag_of(verb, pointer);
    const char *name = strrchr(pointer, '/'), *sent = NULL;
    const json_t *value = body;
    if (flag != NULL) {
        (void)fprintf(stderr, "%s (%s)", flag, pointer);
        return;
    }
    for (const char *step = pointer; name != NULL && step < name; step = step + 1 + strcspn(step + 1, "/"))
        value = json_object_getn(value, step + 1, strcspn(step + 1, "/"));
    if (name != NULL) sent = json_string_value(json_object_get(value, name + 1));
    (void)fputs(pointer, stderr);
    if (sent != NULL) (void)fprintf(stderr, " (%.300s)", sent);
}

/* One line, and one more for each field where several are wrong. */
static void tell_problem(struct verb *verb, const json_t *body, const struct client_reply *reply)
{
    struct error error;
    size_t index;
    const json_t *fault, *faults = json_object_get(reply->document, "errors");
    const bool single = json_array_size(faults) == 1;
    (void)client_problem(reply, &error);
    if (!single) (void)verb_error(verb, &error);
    json_array_foreach(faults, index, fault)
    {
        const char *pointer = json_string_value(json_object_get(fault, "pointer"));
        const char *detail = json_string_value(json_object_get(fault, "detail"));
        (void)fprintf(stderr, "%s%s%s", single ? "deltaq " : "  ", single ? verb->name : "", single ? ": " : "");
        put_place(verb, body, pointer != NULL ? pointer : "");
        (void)fprintf(stderr, ": %s", detail != NULL ? detail : "");
        if (single) (void)fprintf(stderr, " (HTTP %d)", reply->http);
        (void)fputc('\n', stderr);
    }
    if (reply->http == 401) (void)fputs("  the server wants a token: --token, DELTAQ_TOKEN or --client-file\n", stderr);
}

bool verb_told(struct verb *verb, const struct client_request *request, enum status status,
               const struct client_reply *reply, const struct error *error)
{
    struct error no_json;
    if (status != STATUS_OK) {
        (void)verb_error(verb, error);
        if (status == STATUS_UNAVAILABLE) verb->exit_status = VERB_UNREACHABLE;
        return false;
    }
    if (reply->http < 300 && (request->accept != NULL || reply->document != NULL)) return true;
    if (reply->http < 300) {
        (void)error_set(&no_json, STATUS_UNSUPPORTED, "the answer is no JSON: is this address that of a server?");
        (void)verb_error(verb, &no_json);
    } else {
        tell_problem(verb, request->body, reply);
    }
    verb->exit_status = VERB_REFUSED;
    return false;
}

bool verb_call(struct verb *verb, const struct client_request *request, struct client_reply *reply)
{
    struct error error;
    const enum status status = client_send(verb->client, request, reply, &error);
    return verb_told(verb, request, status, reply, &error);
}

void verb_print(struct verb *verb, const json_t *document)
{
    if (json_dumpf(document, stdout, JSON_INDENT(2)) != 0 || putchar('\n') < 0) verb->exit_status = VERB_FAILED;
}
