#include "kinds/integrity.h"

#include "base/memory.h"
#include "health/integrity.h"
#include "inputs/inputs.h"
#include "store/health.h"
#include "store/trajectories.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_FINITE_MOST = 200 };

static const struct {
    enum integrity_flag flag;
    const char *name;
} flags[] = {{INTEGRITY_IDENTICAL, "identical"},
             {INTEGRITY_MIXED, "mixed"},
             {INTEGRITY_JUMP, "jump"},
             {INTEGRITY_NOT_FINITE, "not_finite"}};

/* The rows of the store and the engine's findings. */
struct finding {
    struct health_rows rows;
    struct integrity_point *points; /* owned */
    struct integrity_file **files;  /* [rows.count], owned */
    struct integrity found;
};

static uint64_t key_of(const char *digits)
{
    char first[17] = "";
    memcpy(first, digits, strnlen(digits, 16));
    return strtoull(first, NULL, 16);
}

/* Reads the files into an array indexed by the numbers of `homes`; a file that is not listed has no key of its own and
 * no distance. */
static enum status read_files(const struct health_row *row, struct integrity_file **out, int64_t *count,
                              struct error *error)
{
    size_t i;
    json_t *file;
    *count = 0;
    json_array_foreach(row->files, i, file)
    {
        const int64_t place = json_integer_value(json_object_get(file, "file"));
        if (place >= *count) *count = place + 1;
    }
    const enum status status = memory_new(*count, sizeof **out, "integrity", out, error);
    if (status != STATUS_OK) return status;
    for (int64_t k = 0; k < *count; k++) (*out)[k] = (struct integrity_file){(uint64_t)k, NAN};
    json_array_foreach(row->files, i, file)
    {
        const json_t *relative = json_object_get(file, "relative_l2");
        const char *digits = json_string_value(json_object_get(file, "sha256"));
        (*out)[json_integer_value(json_object_get(file, "file"))] = (struct integrity_file){
            key_of(digits != NULL ? digits : ""), json_is_number(relative) ? json_number_value(relative) : NAN};
    }
    return STATUS_OK;
}

struct named {
    const char *id;
    int64_t place;
};

static int compare_named(const void *left, const void *right)
{
    return strcmp(((const struct named *)left)->id, ((const struct named *)right)->id);
}

static enum status fill_points(struct finding *finding, const struct named *names, struct error *error)
{
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < finding->rows.count && status == STATUS_OK; i++) {
        const struct health_row *row = &finding->rows.items[i];
        const struct named key = {.id = row->previous.text};
        struct integrity_point *point = &finding->points[i];
        *point =
            (struct integrity_point){.step = row->step, .measured = row->measured, .previous = -1, .relative = NAN};
        if (!row->measured) continue;
        const struct named *found = bsearch(&key, names, (size_t)finding->rows.count, sizeof key, compare_named);
        status = read_files(row, &finding->files[i], &point->file_count, error);
        point->content = key_of(row->content);
        point->files = finding->files[i];
        point->matrix_count = row->matrices;
        point->matrices = row->keys;
        point->homes = row->homes;
        point->not_finite = row->not_finite;
        point->relative = row->relative;
        if (found != NULL) point->previous = found->place;
    }
    return status;
}

static void finding_reset(struct finding *finding)
{
    for (int64_t i = 0; finding->files != NULL && i < finding->rows.count; i++) memory_free(finding->files[i]);
    memory_free(finding->files);
    memory_free(finding->points);
    integrity_reset(&finding->found);
    health_rows_reset(&finding->rows);
}

static enum status finding_make(struct connection *connection, const char *trajectory, struct finding *out,
                                struct error *error)
{
    struct named *names = NULL;
    enum status status;
    *out = (struct finding){0};
    if ((status = health_of_trajectory(connection, trajectory, &out->rows, error)) != STATUS_OK) goto done;
    if ((status = memory_new(out->rows.count, sizeof *names, "integrity", &names, error)) != STATUS_OK) goto done;
    if ((status = memory_new(out->rows.count, sizeof *out->points, "integrity", &out->points, error)) != STATUS_OK)
        goto done;
    if ((status = memory_new(out->rows.count, sizeof *out->files, "integrity", &out->files, error)) != STATUS_OK)
        goto done;
    for (int64_t i = 0; i < out->rows.count; i++) names[i] = (struct named){out->rows.items[i].id.text, i};
    qsort(names, (size_t)out->rows.count, sizeof *names, compare_named);
    if ((status = fill_points(out, names, error)) != STATUS_OK) goto done;
    status = integrity_find(out->points, out->rows.count, &out->found, error);
done:
    memory_free(names);
    if (status != STATUS_OK) finding_reset(out);
    return status;
}

/* ---- rendering; a NULL from a failed allocation goes into the list, which json_array_append_new then refuses ---- */

static json_t *number_or_null(int64_t number)
{
    return number >= 0 ? json_integer(number) : json_null();
}

static json_t *flag_names(unsigned of)
{
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if ((of & (unsigned)flags[i].flag) != 0) (void)json_array_append_new(list, json_string(flags[i].name));
    return list;
}

static json_t *reference(const struct finding *finding, int64_t point)
{
    const struct health_row *row = &finding->rows.items[point];
    return json_pack("{ss ss so}", "checkpoint", row->id.text, "name", row->name, "step", number_or_null(row->step));
}

/* Adds checkpoint `own` and its neighbours, or all points for -1. */
static bool render_points(const struct finding *finding, int64_t own, json_t *out)
{
    bool good = true;
    for (int64_t i = 0; i < finding->rows.count && good; i++) {
        if (own >= 0 && (i < own - 1 || i > own + 1)) continue;
        const struct health_row *row = &finding->rows.items[i];
        const int64_t group = finding->found.groups[i];
        json_t *point = reference(finding, i);
        json_t *more = json_pack("{so ss? so ss? ss? so so so}", "tokens", number_or_null(row->tokens), "sha256",
                                 row->measured ? row->content : NULL, "flags", flag_names(finding->found.flags[i]),
                                 "identical_to", group >= 0 && group != i ? finding->rows.items[group].id.text : NULL,
                                 "previous", row->measured && row->previous.text[0] != '\0' ? row->previous.text : NULL,
                                 "relative_l2", row->measured ? inputs_number(row->relative) : json_null(), "cosine",
                                 row->measured ? inputs_number(row->cosine) : json_null(), "not_finite",
                                 row->measured ? json_integer(row->not_finite) : json_null());
        good = json_object_update(point, more) == 0 && json_array_append_new(out, point) == 0;
        json_decref(more);
    }
    return good;
}

static bool render_groups(const struct finding *finding, json_t *out)
{
    bool good = true;
    for (int64_t i = 0; i < finding->rows.count && good; i++) {
        if (finding->found.groups[i] != i) continue;
        json_t *members = json_array();
        for (int64_t k = i; k < finding->rows.count; k++)
            if (finding->found.groups[k] == i) (void)json_array_append_new(members, reference(finding, k));
        good = json_array_append_new(
                   out, json_pack("{ss so}", "sha256", finding->rows.items[i].content, "checkpoints", members)) == 0;
    }
    return good;
}

static const char *file_name(const struct finding *finding, int64_t point, int32_t place)
{
    size_t i;
    json_t *file;
    json_array_foreach(finding->rows.items[point].files, i,
                       file) if (json_integer_value(json_object_get(file, "file")) ==
                                 place) return json_string_value(json_object_get(file, "name"));
    return NULL;
}

static enum status render_shares(struct connection *connection, const struct finding *finding, json_t *out,
                                 struct error *error)
{
    json_t *wanted = json_array(), *names = NULL;
    for (int64_t i = 0; i < finding->found.share_count; i++) {
        const struct integrity_share *share = &finding->found.shares[i];
        (void)json_array_append_new(
            wanted, json_pack("[sI]", finding->rows.items[share->point].id.text, (json_int_t)share->example));
    }
    enum status status = wanted == NULL ? error_no_memory(error, "a document") : STATUS_OK;
    if (status == STATUS_OK && finding->found.share_count > 0)
        status = health_matrix_names(connection, wanted, &names, error);
    for (int64_t i = 0; i < finding->found.share_count && status == STATUS_OK; i++) {
        const struct integrity_share *share = &finding->found.shares[i];
        json_t *row = reference(finding, share->point);
        json_t *more =
            json_pack("{so ss? sI sI sO?}", "with", reference(finding, share->with), "file",
                      share->file >= 0 ? file_name(finding, share->point, share->file) : NULL, "matrices",
                      (json_int_t)share->matrices, "of", (json_int_t)finding->rows.items[share->point].matrices,
                      "example", json_array_get(names, (size_t)i));
        if (json_object_update(row, more) != 0 || json_array_append_new(out, row) != 0)
            status = error_no_memory(error, "a document");
        json_decref(more);
    }
    json_decref(wanted);
    json_decref(names);
    return status;
}

static bool render_jumps(const struct finding *finding, json_t *out)
{
    bool good = true;
    for (int64_t i = 0; i < finding->found.jump_count && good; i++) {
        const struct integrity_jump *jump = &finding->found.jumps[i];
        json_t *row = reference(finding, jump->point);
        json_t *more =
            json_pack("{ss? sf sf sf}", "file", jump->file >= 0 ? file_name(finding, jump->point, jump->file) : NULL,
                      "relative_l2", jump->relative, "expected", jump->expected, "score", jump->score);
        good = json_object_update(row, more) == 0 && json_array_append_new(out, row) == 0;
        json_decref(more);
    }
    return good;
}

static bool render_gaps(const struct finding *finding, json_t *out)
{
    bool good = true;
    for (int64_t i = 0; i < finding->found.gap_count && good; i++) {
        const struct integrity_gap *gap = &finding->found.gaps[i];
        good = json_array_append_new(out, json_pack("{so so sI}", "after", reference(finding, gap->after), "before",
                                                    reference(finding, gap->before), "missing",
                                                    (json_int_t)gap->missing)) == 0;
    }
    return good;
}

/* How many checkpoints were read, how many have a flag, and whether they are clean: false when one has a flag, true
 * when all were read and none has, null when that is not known. */
static int64_t measured(const struct finding *finding, int64_t *marked, json_t **clean)
{
    int64_t count = 0;
    *marked = 0;
    for (int64_t i = 0; i < finding->rows.count; i++) {
        count += finding->rows.items[i].measured;
        if (finding->found.flags[i] != 0) ++*marked;
    }
    const bool known = *marked > 0 || (count > 0 && count == finding->rows.count);
    *clean = known ? json_boolean(*marked == 0) : json_null();
    return count;
}

/* The place of the checkpoint that is named; -1: of none, for all are meant. */
static enum status find_own(const struct finding *finding, const char *trajectory, const char *reference, int64_t *out,
                            struct error *error)
{
    const size_t length = strlen(trajectory);
    *out = -1;
    if (reference == NULL) return STATUS_OK;
    const char *name =
        strncmp(reference, trajectory, length) == 0 && reference[length] == '/' ? reference + length + 1 : reference;
    for (int64_t i = 0; i < finding->rows.count; i++) {
        const struct health_row *row = &finding->rows.items[i];
        if (strcmp(row->id.text, reference) == 0) { /* an id has precedence over a name that looks like one */
            *out = i;
            return STATUS_OK;
        }
        if (strcmp(row->name, reference) == 0 || (*out < 0 && strcmp(row->name, name) == 0)) *out = i;
    }
    return *out >= 0 ? STATUS_OK
                     : error_set(error, STATUS_NOT_FOUND, "trajectory \"%.100s\" has no checkpoint \"%.200s\"",
                                 trajectory, reference);
}

/* Whether a finding names the checkpoint: itself, as the other one, among several, or beside a gap. */
static bool concerns(json_t *value, const char *id)
{
    const char *key;
    json_t *field;
    size_t i;
    if (json_is_array(value)) {
        json_array_foreach(value, i, field) if (concerns(field, id)) return true;
        return false;
    }
    json_object_foreach(value, key, field)
    {
        if (strcmp(key, "checkpoint") == 0 && strcmp(json_string_value(field), id) == 0) return true;
        if ((json_is_object(field) || json_is_array(field)) && concerns(field, id)) return true;
    }
    return false;
}

/* Leaves of a list of findings those that concern one checkpoint; NULL: all. */
static void keep(json_t *list, const char *id)
{
    for (size_t i = json_array_size(list); id != NULL && i-- > 0;)
        if (!concerns(json_array_get(list, i), id)) (void)json_array_remove(list, i);
}

enum status integrity_document(struct connection *connection, const char *trajectory, const char *checkpoint,
                               json_t **document, struct error *error)
{
    int64_t own = -1, marked = 0;
    struct finding finding;
    json_t *points = json_array(), *identical = json_array(), *mixed = json_array(), *jumps = json_array(),
           *gaps = json_array();
    json_t *broken = NULL, *row = NULL;
    json_t *clean = NULL;
    enum status status = finding_make(connection, trajectory, &finding, error);
    *document = NULL;
    if (status != STATUS_OK) goto done;
    if ((status = trajectory_get(connection, trajectory, &row, error)) != STATUS_OK) goto done;
    if ((status = find_own(&finding, json_string_value(json_object_get(row, "name")), checkpoint, &own, error)) !=
        STATUS_OK)
        goto done;
    const char *only = own >= 0 ? finding.rows.items[own].id.text : NULL;
    if ((status = render_shares(connection, &finding, mixed, error)) != STATUS_OK) goto done;
    if ((status = health_not_finite(connection, trajectory, only, NOT_FINITE_MOST, &broken, error)) != STATUS_OK)
        goto done;
    if (!render_points(&finding, own, points) || !render_groups(&finding, identical) ||
        !render_jumps(&finding, jumps) || !render_gaps(&finding, gaps)) {
        status = error_no_memory(error, "a document");
        goto done;
    }
    json_t *const findings[] = {identical, mixed, jumps, gaps};
    for (size_t i = 0; i < sizeof findings / sizeof findings[0]; i++) keep(findings[i], only);
    const int64_t known = measured(&finding, &marked, &clean);
    *document =
        json_pack("{sO sI sI sI so sI sO sO sO sO sO sO}", "trajectory", json_object_get(row, "name"), "checkpoints",
                  (json_int_t)finding.rows.count, "measured", (json_int_t)known, "marked", (json_int_t)marked, "clean",
                  clean, "constant_matrices", (json_int_t)finding.found.constant, "points", points, "identical",
                  identical, "mixed", mixed, "jumps", jumps, "not_finite", broken, "gaps", gaps);
    if (*document == NULL) status = error_no_memory(error, "a document");
done:
    finding_reset(&finding);
    json_decref(points);
    json_decref(identical);
    json_decref(mixed);
    json_decref(jumps);
    json_decref(gaps);
    json_decref(broken);
    json_decref(row);
    return status;
}

enum status integrity_flags(struct connection *connection, const char *trajectory, json_t **out, struct error *error)
{
    struct finding finding = {0};
    bool any = false;
    enum status status = health_any(connection, trajectory, &any, error);
    *out = NULL;
    if (status == STATUS_OK && any) status = finding_make(connection, trajectory, &finding, error);
    if (status != STATUS_OK) return status;
    *out = json_object();
    if (*out == NULL) status = error_no_memory(error, "a document");
    for (int64_t i = 0; i < finding.rows.count && status == STATUS_OK; i++)
        if (finding.found.flags[i] != 0 &&
            json_object_set_new(*out, finding.rows.items[i].id.text, flag_names(finding.found.flags[i])) != 0)
            status = error_no_memory(error, "a document");
    finding_reset(&finding);
    if (status != STATUS_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}
