#include "kinds/integrity.h"

#include "base/memory.h"
#include "health/integrity.h"
#include "kinds/integrity_report.h"
#include "schema/result_render.h"
#include "store/health.h"
#include "store/trajectories.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_FINITE_MOST = 200 };

_Static_assert(INTEGRITY_IDENTICAL == 1 && INTEGRITY_MIXED == 2 && INTEGRITY_JUMP == 4 && INTEGRITY_NOT_FINITE == 8,
               "flags have the order of integrity_report_flags");

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
    *finding = (struct finding){0};
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

/* ---- The report on all checkpoints (`own` -1), or on one ---- */

static struct integrity_reference reference_of(const struct finding *finding, int64_t point)
{
    const struct health_row *row = &finding->rows.items[point];
    return (struct integrity_reference){row->id.text, row->name, row->step, row->step >= 0};
}

static struct integrity_report_point point_of(const struct finding *finding, int64_t i)
{
    const struct health_row *row = &finding->rows.items[i];
    const int64_t group = finding->found.groups[i];
    struct integrity_report_point point = {
        .reference = reference_of(finding, i),
        .tokens = row->tokens,
        .has_tokens = row->tokens >= 0,
        .identical_to = group >= 0 && group != i ? finding->rows.items[group].id.text : NULL,
        .measured = row->measured,
        .not_finite = row->not_finite,
        .relative = NAN,
        .cosine = NAN,
    };
    for (int flag = 0; flag < INTEGRITY_REPORT_FLAGS; flag++)
        if ((finding->found.flags[i] >> flag & 1) != 0) point.flags[point.flag_count++] = flag;
    if (!row->measured) return point;
    point.sha256 = row->content;
    if (row->previous.text[0] != '\0') point.previous = row->previous.text;
    point.relative = row->relative;
    point.cosine = row->cosine;
    return point;
}

/* The report on one checkpoint has the points of its neighbours, too. */
static enum status report_points(const struct finding *finding, int64_t own, struct integrity_report *out,
                                 struct error *error)
{
    const enum status status = memory_new(finding->rows.count, sizeof *out->points, "integrity", &out->points, error);
    for (int64_t i = 0; i < finding->rows.count && status == STATUS_OK; i++)
        if (own < 0 || (i >= own - 1 && i <= own + 1)) out->points[out->point_count++] = point_of(finding, i);
    return status;
}

static enum status report_groups(const struct finding *finding, int64_t own, struct integrity_report *out,
                                 struct error *error)
{
    const int64_t count = finding->rows.count, *groups = finding->found.groups;
    int64_t members = 0;
    enum status status = memory_new(count, sizeof *out->groups, "integrity", &out->groups, error);
    if (status == STATUS_OK) status = memory_new(count, sizeof *out->members, "integrity", &out->members, error);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        if (groups[i] != i || (own >= 0 && groups[own] != i)) continue;
        struct integrity_report_group *group = &out->groups[out->group_count++];
        group->sha256 = finding->rows.items[i].content;
        group->members = &out->members[members];
        for (int64_t k = i; k < count; k++)
            if (groups[k] == i) group->members[group->count++] = reference_of(finding, k);
        members += group->count;
    }
    return status;
}

static const char *file_name(const struct finding *finding, int64_t point, int32_t place)
{
    size_t i;
    json_t *file;
    json_array_foreach(finding->rows.items[point].files, i, file)
    {
        if (json_integer_value(json_object_get(file, "file")) == place)
            return json_string_value(json_object_get(file, "name"));
    }
    return NULL;
}

/* Sets the name of one matrix of each share. */
static enum status report_examples(struct connection *connection, const json_t *wanted, struct integrity_report *out,
                                   struct error *error)
{
    if (out->share_count == 0) return STATUS_OK;
    const enum status status = health_matrix_names(connection, wanted, &out->examples, error);
    for (int64_t i = 0; i < out->share_count && status == STATUS_OK; i++)
        out->shares[i].example = json_string_value(json_array_get(out->examples, (size_t)i));
    return status;
}

static enum status report_shares(struct connection *connection, const struct finding *finding, int64_t own,
                                 struct integrity_report *out, struct error *error)
{
    const struct integrity *found = &finding->found;
    json_t *wanted = json_array();
    enum status status = memory_new(found->share_count, sizeof *out->shares, "integrity", &out->shares, error);
    for (int64_t i = 0; i < found->share_count && status == STATUS_OK; i++) {
        const struct integrity_share *share = &found->shares[i];
        if (own >= 0 && share->point != own && share->with != own) continue;
        const struct health_row *row = &finding->rows.items[share->point];
        out->shares[out->share_count++] = (struct integrity_report_share){
            .reference = reference_of(finding, share->point),
            .with = reference_of(finding, share->with),
            .file = share->file >= 0 ? file_name(finding, share->point, share->file) : NULL,
            .matrices = share->matrices,
            .of = row->matrices,
        };
        if (json_array_append_new(wanted, json_pack("[sI]", row->id.text, (json_int_t)share->example)) != 0)
            status = error_no_memory(error, "a document");
    }
    if (status == STATUS_OK) status = report_examples(connection, wanted, out, error);
    json_decref(wanted);
    return status;
}

static enum status report_jumps(const struct finding *finding, int64_t own, struct integrity_report *out,
                                struct error *error)
{
    const struct integrity *found = &finding->found;
    const enum status status = memory_new(found->jump_count, sizeof *out->jumps, "integrity", &out->jumps, error);
    for (int64_t i = 0; i < found->jump_count && status == STATUS_OK; i++) {
        const struct integrity_jump *jump = &found->jumps[i];
        if (own >= 0 && jump->point != own) continue;
        out->jumps[out->jump_count++] = (struct integrity_report_jump){
            .reference = reference_of(finding, jump->point),
            .file = jump->file >= 0 ? file_name(finding, jump->point, jump->file) : NULL,
            .relative = jump->relative,
            .expected = jump->expected,
            .score = jump->score,
        };
    }
    return status;
}

static enum status report_gaps(const struct finding *finding, int64_t own, struct integrity_report *out,
                               struct error *error)
{
    const struct integrity *found = &finding->found;
    const enum status status = memory_new(found->gap_count, sizeof *out->gaps, "integrity", &out->gaps, error);
    for (int64_t i = 0; i < found->gap_count && status == STATUS_OK; i++) {
        const struct integrity_gap *gap = &found->gaps[i];
        if (own >= 0 && gap->after != own && gap->before != own) continue;
        out->gaps[out->gap_count++] = (struct integrity_report_gap){reference_of(finding, gap->after),
                                                                    reference_of(finding, gap->before), gap->missing};
    }
    return status;
}

/* A trajectory is clean when every checkpoint was read and none has a flag, and not clean when one has. Otherwise that
 * is not known. */
static void report_counts(const struct finding *finding, struct integrity_report *out)
{
    out->checkpoints = finding->rows.count;
    out->constant_matrices = finding->found.constant;
    for (int64_t i = 0; i < finding->rows.count; i++) {
        out->measured += finding->rows.items[i].measured;
        out->marked += finding->found.flags[i] != 0;
    }
    out->clean = out->marked == 0;
    out->clean_known = out->marked > 0 || (out->measured > 0 && out->measured == out->checkpoints);
}

static enum status report_fill(struct connection *connection, const struct finding *finding, int64_t own,
                               struct integrity_report *out, struct error *error)
{
    enum status status = report_points(finding, own, out, error);
    if (status == STATUS_OK) status = report_groups(finding, own, out, error);
    if (status == STATUS_OK) status = report_shares(connection, finding, own, out, error);
    if (status == STATUS_OK) status = report_jumps(finding, own, out, error);
    if (status == STATUS_OK) status = report_gaps(finding, own, out, error);
    report_counts(finding, out);
    return status;
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

enum status integrity_document(struct connection *connection, const char *trajectory, const char *checkpoint,
                               json_t **document, struct error *error)
{
    int64_t own = -1;
    struct finding finding;
    struct integrity_report report = {0};
    json_t *row = NULL;
    enum status status = finding_make(connection, trajectory, &finding, error);
    *document = NULL;
    if (status == STATUS_OK) status = trajectory_get(connection, trajectory, &row, error);
    report.trajectory = json_string_value(json_object_get(row, "name"));
    if (status == STATUS_OK) status = find_own(&finding, report.trajectory, checkpoint, &own, error);
    if (status == STATUS_OK) status = report_fill(connection, &finding, own, &report, error);
    const char *only = own >= 0 ? finding.rows.items[own].id.text : NULL;
    if (status == STATUS_OK)
        status = health_not_finite(connection, trajectory, only, NOT_FINITE_MOST, &report.not_finite, error);
    if (status == STATUS_OK) status = result_render(&integrity_report_shape, &report, document, error);
    integrity_report_reset(&report);
    finding_reset(&finding);
    json_decref(row);
    return status;
}

/* NULL when memory ran out. */
static json_t *flag_names(unsigned of)
{
    json_t *list = json_array();
    bool good = list != NULL;
    for (int flag = 0; flag < INTEGRITY_REPORT_FLAGS && good; flag++)
        if ((of >> flag & 1) != 0) good = json_array_append_new(list, json_string(integrity_report_flags[flag])) == 0;
    if (good) return list;
    json_decref(list);
    return NULL;
}

static enum status add_flags(struct connection *connection, const char *trajectory, json_t *out, struct error *error)
{
    struct finding finding = {0};
    enum status status = finding_make(connection, trajectory, &finding, error);
    if (status != STATUS_OK) return status;
    for (int64_t i = 0; i < finding.rows.count && status == STATUS_OK; i++)
        if (finding.found.flags[i] != 0 &&
            json_object_set_new(out, finding.rows.items[i].id.text, flag_names(finding.found.flags[i])) != 0)
            status = error_no_memory(error, "a document");
    finding_reset(&finding);
    return status;
}

enum status integrity_flags(struct connection *connection, const char *const *trajectories, size_t count, json_t **out,
                            struct error *error)
{
    size_t i;
    json_t *read = NULL, *trajectory, *flags = json_object();
    enum status status = flags != NULL ? STATUS_OK : error_no_memory(error, "a document");
    if (status == STATUS_OK) status = health_trajectories(connection, trajectories, count, &read, error);
    json_array_foreach(read, i, trajectory)
    {
        if (status == STATUS_OK) status = add_flags(connection, json_string_value(trajectory), flags, error);
    }
    *out = status == STATUS_OK ? json_incref(flags) : NULL;
    json_decref(flags);
    json_decref(read);
    return status;
}
