#include "cli/fields.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

/* The placeholder of a value in the help, by type. */
static const char *const placeholders[] = {
    [PARAM_INTEGER] = "N",       [PARAM_NUMBER] = "X",
    [PARAM_BOOLEAN] = "",        [PARAM_STRING] = "TEXT",
    [PARAM_CHOICE] = "CHOICE",   [PARAM_OBJECT] = "JSON",
    [PARAM_VARIANT] = "NAME",    [PARAM_CHECKPOINT] = "CHECKPOINT",
    [PARAM_DATASET] = "DATASET", [PARAM_TRAJECTORY] = "TRAJECTORY",
    [PARAM_JSON] = "JSON",       [PARAM_ARRAY] = "LIST",
    [PARAM_LIST] = "LIST",
};

enum { PLACEHOLDER_WIDTH = 40 }; /* longer choices are listed with the possible values */

/* ---- which fields there are ---- */

static struct field *find_path(struct fields *fields, int object, const char *path)
{
    for (int64_t i = 0; i < fields->count; i++)
        if (fields->items[i].object == object && strcmp(fields->items[i].path, path) == 0) return &fields->items[i];
    return NULL;
}

static enum status add_field(struct fields *fields, int object, const char *path, const struct param *param,
                             const char *variant, int of, struct error *error)
{
    struct field *field = find_path(fields, object, path);
    enum status status = STATUS_OK;
    if (field == NULL) {
        status = array_grow(&fields->items, fields->count + 1, &fields->capacity, sizeof *fields->items, error);
        if (status != STATUS_OK) return status;
        field = &fields->items[fields->count++];
        *field = (struct field){.object = object, .of = of};
        (void)snprintf(field->path, sizeof field->path, "%s", path);
    }
    if (field->count == FIELDS_VARIANTS) return error_set(error, STATUS_INTERNAL, "%s has too many variants", path);
    field->params[field->count] = param;
    field->variants[field->count++] = variant;
    return STATUS_OK;
}

/* The place of a table: the path above it, and its variant among how many. */
struct place {
    int object;
    const char *path, *variant;
    int of;
    const char *const *skip;
};

static bool skipped(const struct place *place, const char *name)
{
    for (const char *const *skip = place->skip; skip != NULL && *skip != NULL; skip++)
        if (strcmp(*skip, name) == 0) return true;
    return false;
}

static enum status add_table(struct fields *fields, const struct place *place, const struct param *table,
                             struct error *error);

static enum status add_variants(struct fields *fields, const struct place *place, const struct param *param,
                                const char *path, struct error *error)
{
    enum status status = STATUS_OK;
    int of = 0;
    while (param->variants[of].name != NULL) of++;
    for (int i = 0; status == STATUS_OK && i < of; i++) {
        const struct place below = {place->object, path, param->variants[i].name, of, NULL};
        status = add_table(fields, &below, param->variants[i].params, error);
    }
    return status;
}

static enum status add_param(struct fields *fields, const struct place *place, const struct param *param,
                             struct error *error)
{
    char path[FIELDS_PATH];
    if (snprintf(path, sizeof path, "%s%s%s", place->path, place->path[0] != '\0' ? "." : "", param->name) >=
        (int)sizeof path)
        return error_set(error, STATUS_INTERNAL, "the path of %s is too long", param->name);
    const enum status status = add_field(fields, place->object, path, param, place->variant, place->of, error);
    if (status != STATUS_OK) return status;
    const struct place below = {place->object, path, place->variant, place->of, NULL};
    if (param->type == PARAM_OBJECT) return add_table(fields, &below, param->children, error);
    return param->type == PARAM_VARIANT ? add_variants(fields, place, param, path, error) : STATUS_OK;
}

static enum status add_table(struct fields *fields, const struct place *place, const struct param *table,
                             struct error *error)
{
    enum status status = STATUS_OK;
    for (; table->type != PARAM_END && status == STATUS_OK; table++)
        if (!skipped(place, table->name)) status = add_param(fields, place, table, error);
    return status;
}

enum status fields_add(struct fields *fields, int object, const char *pointer, const struct param *table,
                       const char *const *skip, struct error *error)
{
    fields->objects[object] = pointer;
    return add_table(fields, &(struct place){.object = object, .path = "", .skip = skip}, table, error);
}

void fields_reset(struct fields *fields)
{
    free(fields->items);
    free(fields->rows);
    *fields = (struct fields){0};
}

/* ---- their flags ---- */

/* The last `segments` words of a path; NULL when it has fewer. */
static const char *path_end(const char *path, int segments)
{
    const char *at = path + strlen(path);
    while (at > path && segments > 0) {
        at--;
        if (*at == '.' && --segments == 0) return at + 1;
    }
    return segments <= 1 ? at : NULL;
}

static bool taken(const struct fields *fields, const struct field *field, const char *end, int segments,
                  const struct option_row *own)
{
    for (int64_t i = 0; i < fields->count; i++) {
        const struct field *other = &fields->items[i];
        const char *theirs = other != field ? path_end(other->path, segments) : NULL;
        if (theirs != NULL && strcmp(theirs, end) == 0) return true;
    }
    for (; own->flag != NULL; own++)
        if (strcmp(own->flag + 2, end) == 0) return true;
    return false;
}

/* A top-level field keeps its plain name, because the flag of a field further down can be longer. */
static const char *short_name(const struct fields *fields, const struct field *field, const struct option_row *own)
{
    if (strchr(field->path, '.') == NULL) return field->path;
    for (int segments = 1;; segments++) {
        const char *end = path_end(field->path, segments);
        if (end == NULL || end == field->path) return field->path;
        if (!taken(fields, field, end, segments, own)) return end;
    }
}

/* "--sequence-length" of "sequence_length". */
static void make_flag(char *out, size_t size, const char *start, const char *name)
{
    (void)snprintf(out, size, "%s%s", start, name);
    for (; *out != '\0'; out++)
        if (*out == '_') *out = '-';
}

static void make_value(struct field *field)
{
    const struct param *param = field->params[0];
    size_t used = 0;
    (void)snprintf(field->value, sizeof field->value, "%s", placeholders[param->type]);
    if (param->type != PARAM_CHOICE) return;
    for (int i = 0; param->choices[i] != NULL && used < sizeof field->value; i++)
        used += (size_t)snprintf(field->value + used, sizeof field->value - used, "%s%s", i > 0 ? "|" : "",
                                 param->choices[i]);
    if (used > PLACEHOLDER_WIDTH) (void)snprintf(field->value, sizeof field->value, "%s", placeholders[param->type]);
}

static void make_flags(const struct fields *fields, struct field *field, const struct option_row *own)
{
    const char *name = short_name(fields, field, own);
    const bool whole = name == field->path, boolean = field->params[0]->type == PARAM_BOOLEAN;
    const size_t size = sizeof field->flags[0];
    make_flag(field->flags[FIELDS_SHORT], size, "--", name);
    if (!whole) make_flag(field->flags[FIELDS_FULL], size, "--", field->path);
    if (boolean) make_flag(field->flags[FIELDS_NO_SHORT], size, "--no-", name);
    if (boolean && !whole) make_flag(field->flags[FIELDS_NO_FULL], size, "--no-", field->path);
    make_value(field);
}

enum status fields_rows(struct fields *fields, const struct option_row *own, struct error *error)
{
    size_t used = 0, count = 0;
    while (own[count].flag != NULL) count++;
    const size_t most = count + FIELDS_ROWS * (size_t)fields->count + 1;
    fields->rows = calloc(most, sizeof *fields->rows);
    if (fields->rows == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for options");
    for (; used < count; used++) fields->rows[used] = own[used];
    for (int64_t i = 0; i < fields->count; i++) {
        struct field *field = &fields->items[i];
        make_flags(fields, field, own);
        for (int which = 0; which < FIELDS_ROWS; which++)
            if (field->flags[which][0] != '\0')
                fields->rows[used++] = (struct option_row){.flag = field->flags[which],
                                                           .value = field->value[0] != '\0' ? field->value : NULL};
    }
    return STATUS_OK;
}

/* ---- looking up and printing ---- */

static bool is_named(const struct field *field, const char *word, size_t length)
{
    const char *names[] = {field->path, field->flags[FIELDS_SHORT] + 2};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (options_same_name(names[i], word, length)) return true;
    return false;
}

const struct field *fields_find(const struct fields *fields, int object, const char *word, size_t length)
{
    for (int64_t i = 0; i < fields->count; i++)
        if (fields->items[i].object == object && is_named(&fields->items[i], word, length)) return &fields->items[i];
    return NULL;
}

const struct field *fields_at(const struct fields *fields, int object, const char *pointer)
{
    char path[FIELDS_PATH];
    if (pointer[0] != '/') return NULL;
    (void)snprintf(path, sizeof path, "%s", pointer + 1);
    for (char *at = path; *at != '\0'; at++)
        if (*at == '/') *at = '.';
    for (char *end = path + strlen(path); end > path; *end = '\0') {
        const struct field *field = fields_find(fields, object, path, strlen(path));
        if (field != NULL) return field;
        do end--;
        while (end > path && *end != '.');
    }
    return NULL;
}

const char **fields_choices(const struct field *field)
{
    const struct param *param = field->params[0];
    size_t count = 0, used = 0;
    for (int i = 0; param->choices != NULL && param->choices[i] != NULL; i++) count++;
    for (int i = 0; param->variants != NULL && param->variants[i].name != NULL; i++) count++;
    for (int i = 0; param->recipes != NULL && param->recipes[i].name != NULL; i++) count++;
    const char **words = count > 0 ? calloc(count + 1, sizeof *words) : NULL;
    if (words == NULL) return NULL;
    for (int i = 0; param->choices != NULL && param->choices[i] != NULL; i++) words[used++] = param->choices[i];
    for (int i = 0; param->variants != NULL && param->variants[i].name != NULL; i++)
        words[used++] = param->variants[i].name;
    for (int i = 0; param->recipes != NULL && param->recipes[i].name != NULL; i++)
        words[used++] = param->recipes[i].name;
    return words;
}

/* The help, with ": a, b" (choices), " (default 4)" and " [of gptq, awq]". */
void fields_print_help(const struct field *field, FILE *out)
{
    const struct param *param = field->params[0];
    if (param->help != NULL) (void)fputs(param->help, out);
    const char **choices = strchr(field->value, '|') == NULL ? fields_choices(field) : NULL;
    const int quoted = param->fallback != NULL && param->fallback[0] == '"';
    for (size_t i = 0; choices != NULL && choices[i] != NULL; i++)
        (void)fprintf(out, "%s%s", i == 0 ? ": " : ", ", choices[i]);
    free(choices);
    if (param->fallback != NULL && strcmp(param->fallback, "null") != 0)
        (void)fprintf(out, " (default %.*s)", (int)strlen(param->fallback) - 2 * quoted, param->fallback + quoted);
    for (int i = 0; i < field->count && field->count < field->of; i++)
        (void)fprintf(out, "%s%s%s", i == 0 ? " [of " : ", ", field->variants[i], i + 1 == field->count ? "]" : "");
}

void fields_print(const struct fields *fields, FILE *out)
{
    for (int64_t i = 0; i < fields->count; i++) {
        const struct field *field = &fields->items[i];
        const char *title = i == 0 || field[-1].object != field->object ? fields->titles[field->object] : NULL;
        char left[2 * sizeof field->flags[0] + 2];
        if (title != NULL) (void)fprintf(out, "%s%s\n", i > 0 ? "\n" : "", title);
        (void)snprintf(left, sizeof left, "%s%s%s", field->flags[FIELDS_SHORT], field->value[0] != '\0' ? " " : ", ",
                       field->value[0] != '\0' ? field->value : field->flags[FIELDS_NO_SHORT]);
        (void)fprintf(out, "  %-24s%s", left, strlen(left) > 24 ? "\n                           " : " ");
        fields_print_help(field, out);
        (void)fputc('\n', out);
    }
}
