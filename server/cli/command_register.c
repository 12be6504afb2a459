#include "cli/command.h"
#include "cli/verb.h"
#include "resources/handlers.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The types of objects that a path can be registered as. `path`: the field of the body that gets it. */
enum { CHECKPOINT, TRAJECTORY, DATASET, THINGS };

static const struct thing {
    const char *name, *title, *route, *path;
    const struct param *table;
} things[THINGS] = {
    [CHECKPOINT] = {"checkpoint", "Of a checkpoint:", "/v1/checkpoints", "source", checkpoints_post_body},
    [TRAJECTORY] = {"trajectory", "Of a trajectory, beside --trajectory:", "/v1/trajectories", "path",
                    trajectories_scan_body},
    [DATASET] = {"dataset", "Of a dataset:", "/v1/datasets", "path", datasets_post_body},
};

static const struct option_row register_options[] = {
    {"--as", "WHAT", NULL, NULL, OPTION_ONCE,
     "checkpoint, trajectory (every checkpoint below PATH) or dataset; without it what PATH looks like"},
    VERB_ROWS,
    VERB_JSON,
    {0},
};

static enum status register_fields(const char *word, struct fields *fields, struct error *error)
{
    static const char *const skip[] = {"source", "path", "sequences", NULL};
    enum status status = STATUS_OK;
    (void)word;
    for (int i = 0; status == STATUS_OK && i < THINGS; i++)
        status = fields_add(fields, i, "", things[i].table, skip, error);
    for (int i = 0; i < THINGS; i++) fields->titles[i] = things[i].title;
    return status;
}

/* The format of a dataset by the end of its file's name; NULL: it says none. */
static const char *format_of(const char *path)
{
    static const char *const formats[][2] = {{".txt", "text"}, {".md", "text"}, {".jsonl", "jsonl"}};
    const char *end = strrchr(path, '.');
    for (size_t i = 0; end != NULL && i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(end, formats[i][0]) == 0) return formats[i][1];
    return NULL;
}

/* Guesses the type: a checkpoint is a directory with config.json or a file of weights, a dataset a file of text; other
 * datasets must be asked for. */
static int guess(const char *path)
{
    char config[PATH_MAX + 16];
    struct stat found;
    if (stat(path, &found) != 0) return -1;
    if (S_ISREG(found.st_mode)) return format_of(path) != NULL ? DATASET : CHECKPOINT;
    (void)snprintf(config, sizeof config, "%s/config.json", path);
    return stat(config, &found) == 0 ? CHECKPOINT : TRAJECTORY;
}

static int what_it_is(struct verb *verb, const char *path)
{
    const char *as = options_text(verb->options, "--as");
    for (int i = 0; as != NULL && i < THINGS; i++)
        if (strcmp(as, things[i].name) == 0) return i;
    if (as != NULL)
        return (void)verb_usage(verb, "--as must be checkpoint, trajectory or dataset, found \"%.60s\"", as), -1;
    const int thing = guess(path);
    if (thing < 0)
        (void)verb_usage(verb, "%s: %s; of a path on the server's machine say what it is with --as", path,
                         strerror(errno));
    return thing;
}

/* False when a flag was given that belongs to another type. */
static bool check_flags(struct verb *verb, int thing)
{
    const struct fields *fields = verb->options->fields;
    for (int64_t i = 0; i < fields->count; i++) {
        const struct field *field = &fields->items[i];
        /* The trajectory of a scan is in its address; for a checkpoint it is in the table. */
        if (thing == TRAJECTORY && strcmp(field->path, "trajectory") == 0) continue;
        if (field->object == thing || fields_find(fields, thing, field->path, strlen(field->path)) != NULL) continue;
        if (options_given(verb->options, field->flags[FIELDS_SHORT]) ||
            (field->flags[FIELDS_NO_SHORT][0] != '\0' && options_given(verb->options, field->flags[FIELDS_NO_SHORT])))
            return (void)verb_usage(verb, "%s is of a %s, and this is a %s (--as)", field->flags[FIELDS_SHORT],
                                    things[field->object].name, things[thing].name),
                   false;
    }
    return true;
}

/* The last component of a path, used as the name when none was given. */
static const char *last_word(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* Adds the names that the table requires, taken from the path. A trajectory's name is part of the address. */
static void add_names(struct verb *verb, int thing, const char *path, json_t *body)
{
    char parent[PATH_MAX];
    const char *trajectory = options_text(verb->options, "--trajectory");
    (void)snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash != NULL) *slash = '\0';
    if (thing != TRAJECTORY && json_object_get(body, "name") == NULL)
        (void)json_object_set_new(body, "name", json_string(last_word(path)));
    if (thing == CHECKPOINT && trajectory == NULL)
        (void)json_object_set_new(body, "trajectory", json_string(last_word(parent)));
}

static json_t *make_body(struct verb *verb, int thing, const char *path)
{
    struct error error;
    json_t *body = json_object();
    if (!check_flags(verb, thing) ||
        fields_read(verb->options->fields, thing, verb->options, body, &error) != STATUS_OK) {
        if (verb->exit_status == VERB_DONE) (void)verb_usage(verb, "%s", error.detail);
        json_decref(body);
        return NULL;
    }
    add_names(verb, thing, path, body);
    if (thing == DATASET && json_object_get(body, "format") == NULL && format_of(path) != NULL)
        (void)json_object_set_new(body, "format", json_string(format_of(path)));
    json_t *where = thing == CHECKPOINT ? json_pack("{ss}", "path", path) : json_string(path);
    if (json_object_set_new(body, things[thing].path, where) == 0) return body;
    json_decref(body);
    return NULL;
}

static void tell(struct verb *verb, int thing, const json_t *answer)
{
    size_t index;
    const json_t *item;
    if (options_given(verb->options, "--json")) {
        verb_print(verb, answer);
    } else if (thing != TRAJECTORY) {
        (void)printf("%s\n", json_string_value(json_object_get(answer, "id")));
    } else {
        json_array_foreach(json_object_get(answer, "registered"), index, item)(void)
            printf("%s\n", json_string_value(json_object_get(item, "name")));
        json_array_foreach(json_object_get(answer, "failed"), index, item)
        {
            (void)fprintf(stderr, "deltaq register: %s: %s\n", json_string_value(json_object_get(item, "path")),
                          json_string_value(json_object_get(item, "detail")));
            verb->exit_status = VERB_FAILED;
        }
    }
}

static void post(struct verb *verb, int thing, const char *path)
{
    struct buffer route = {0};
    struct client_reply reply = {0};
    const char *trajectory = options_text(verb->options, "--trajectory");
    json_t *body = make_body(verb, thing, path);
    if (body == NULL) return;
    buffer_puts(&route, things[thing].route);
    if (thing == TRAJECTORY) {
        buffer_puts(&route, "/");
        client_escape(&route, trajectory != NULL ? trajectory : last_word(path));
        buffer_puts(&route, "/scan");
    }
    if (verb_call(verb, &(struct client_request){.method = "POST", .path = route.bytes, .body = body}, &reply))
        tell(verb, thing, reply.document);
    else if (reply.http == 422 && options_text(verb->options, "--as") == NULL)
        (void)fprintf(stderr, "deltaq register: it was taken for a %s; --as says what it is\n", things[thing].name);
    client_reply_reset(&reply);
    buffer_reset(&route);
    json_decref(body);
}

/* The path as the server gets it, which has another working directory. One that is not here is of the server's machine,
 * and loses the slashes at its end: its last word is a name. False: it is too long. */
static bool make_path(const char *word, char path[PATH_MAX])
{
    if (realpath(word, path) != NULL) return true;
    size_t length = strlen(word);
    while (length > 1 && word[length - 1] == '/') length--;
    return snprintf(path, PATH_MAX, "%.*s", (int)length, word) < PATH_MAX;
}

static int register_run(const struct options *options)
{
    struct verb verb = {.options = options, .name = "register"};
    char path[PATH_MAX];
    if (options->word_count == 0) return verb_usage(&verb, "expected a directory or file; see deltaq register --help");
    if (!make_path(options->words[0], path)) return verb_usage(&verb, "the path is too long");
    json_t *text = json_string(path);
    if (text == NULL) return verb_usage(&verb, "the path \"%.200s\" is not UTF-8, as JSON must be", path);
    json_decref(text);
    if (verb_open(options, "register", &verb)) {
        const int thing = what_it_is(&verb, path);
        if (thing >= 0) post(&verb, thing, path);
    }
    return verb_close(&verb);
}

const struct command command_register = {
    .name = "register",
    .usage = "PATH",
    .help = "Register a directory or file with a server: a checkpoint, a trajectory of them, or a dataset",
    .options = register_options,
    .run = register_run,
    .words = 1,
    .fields = register_fields,
    .notes =
        "A checkpoint or dataset without --name is called by the last word of PATH, the trajectory of a checkpoint\n"
        "without --trajectory by the directory above, that of a whole directory by the directory.\n"
        "A file whose name ends in .txt, .md or .jsonl is a dataset of that format.\n\n" VERB_NOTES,
};
