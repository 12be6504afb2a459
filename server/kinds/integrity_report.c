#include "kinds/integrity_report.h"

#include "base/memory.h"

const char *const integrity_report_flags[] = {"identical", "mixed", "jump", "not_finite", NULL};
_Static_assert(sizeof integrity_report_flags / sizeof integrity_report_flags[0] == INTEGRITY_REPORT_FLAGS + 1,
               "a name for each flag");

/* ---- A checkpoint ---- */

#define REFERENCE(field) offsetof(struct integrity_reference, field)

static const struct result_field reference_fields[] = {
    {.name = "checkpoint", .type = RESULT_TEXT, .offset = REFERENCE(checkpoint), .help = "Its id"},
    {.name = "name", .type = RESULT_TEXT, .offset = REFERENCE(name)},
    {.name = "step",
     .type = RESULT_INTEGER,
     .offset = REFERENCE(step),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REFERENCE(has_step)},
    {0},
};
static const struct result_shape reference_shape = {
    .name = "CheckpointReference", .fields = reference_fields, .size = sizeof(struct integrity_reference)};
static const struct result_field reference_item = {.type = RESULT_OBJECT, .shape = &reference_shape};

#define POINT(field) offsetof(struct integrity_report_point, field)

static const struct result_field flag_item = {.type = RESULT_CHOICE, .choices = integrity_report_flags};

static const struct result_field point_fields[] = {
    {.type = RESULT_MERGED, .offset = POINT(reference), .shape = &reference_shape},
    {.name = "tokens",
     .type = RESULT_INTEGER,
     .offset = POINT(tokens),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = POINT(has_tokens)},
    {.name = "sha256",
     .type = RESULT_TEXT,
     .offset = POINT(sha256),
     .absence = RESULT_NULL,
     .help = "Over the names and hashes of its tensors"},
    {.name = "flags",
     .type = RESULT_ARRAY,
     .offset = POINT(flags),
     .count = POINT(flag_count),
     .item = &flag_item,
     .help = "What is wrong with it; empty where nothing is known"},
    {.name = "identical_to",
     .type = RESULT_TEXT,
     .offset = POINT(identical_to),
     .absence = RESULT_NULL,
     .help = "The first checkpoint with the same weights"},
    {.name = "previous",
     .type = RESULT_TEXT,
     .offset = POINT(previous),
     .absence = RESULT_NULL,
     .help = "The checkpoint it was compared with"},
    {.name = "relative_l2",
     .type = RESULT_NUMBER,
     .offset = POINT(relative),
     .absence = RESULT_NULL,
     .help = "Distance to `previous`, by the norm of that one"},
    {.name = "cosine",
     .type = RESULT_NUMBER,
     .offset = POINT(cosine),
     .absence = RESULT_NULL,
     .help = "Between its weights and those of `previous`"},
    {.name = "not_finite",
     .type = RESULT_INTEGER,
     .offset = POINT(not_finite),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = POINT(measured),
     .help = "Numbers that are NaN or infinite"},
    {0},
};
static const struct result_shape point_shape = {.fields = point_fields, .size = sizeof(struct integrity_report_point)};
static const struct result_field point_item = {.type = RESULT_OBJECT, .shape = &point_shape};

/* ---- What was found ---- */

#define GROUP(field) offsetof(struct integrity_report_group, field)

static const struct result_field group_fields[] = {
    {.name = "sha256",
     .type = RESULT_TEXT,
     .offset = GROUP(sha256),
     .help = "Of each of them, over the names and hashes of its tensors"},
    {.name = "checkpoints",
     .type = RESULT_LIST,
     .offset = GROUP(members),
     .count = GROUP(count),
     .item = &reference_item,
     .help = "In the order of training"},
    {0},
};
static const struct result_shape group_shape = {.fields = group_fields, .size = sizeof(struct integrity_report_group)};
static const struct result_field group_item = {.type = RESULT_OBJECT, .shape = &group_shape};

#define SHARE(field) offsetof(struct integrity_report_share, field)

static const struct result_field share_fields[] = {
    {.type = RESULT_MERGED, .offset = SHARE(reference), .shape = &reference_shape},
    {.name = "with",
     .type = RESULT_OBJECT,
     .offset = SHARE(with),
     .shape = &reference_shape,
     .help = "The other checkpoint"},
    {.name = "file",
     .type = RESULT_TEXT,
     .offset = SHARE(file),
     .absence = RESULT_NULL,
     .help = "The file that is the other's; null: matrices of several files"},
    {.name = "matrices",
     .type = RESULT_INTEGER,
     .offset = SHARE(matrices),
     .help = "How many matrices are the other's"},
    {.name = "of", .type = RESULT_INTEGER, .offset = SHARE(of), .help = "How many it has"},
    {.name = "example", .type = RESULT_TEXT, .offset = SHARE(example), .absence = RESULT_NULL, .help = "Name of one"},
    {0},
};
static const struct result_shape share_shape = {.fields = share_fields, .size = sizeof(struct integrity_report_share)};
static const struct result_field share_item = {.type = RESULT_OBJECT, .shape = &share_shape};

#define JUMP(field) offsetof(struct integrity_report_jump, field)

static const struct result_field jump_fields[] = {
    {.type = RESULT_MERGED, .offset = JUMP(reference), .shape = &reference_shape},
    {.name = "file",
     .type = RESULT_TEXT,
     .offset = JUMP(file),
     .absence = RESULT_NULL,
     .help = "The file that jumps; null: the checkpoint as a whole"},
    {.name = "relative_l2",
     .type = RESULT_NUMBER,
     .offset = JUMP(relative),
     .finite = true,
     .help = "Distance to the checkpoint before, by the norm of that one"},
    {.name = "expected",
     .type = RESULT_NUMBER,
     .offset = JUMP(expected),
     .finite = true,
     .help = "At most, from its neighbours and the steps between"},
    {.name = "score",
     .type = RESULT_NUMBER,
     .offset = JUMP(score),
     .finite = true,
     .help = "Scaled median absolute deviations above that"},
    {0},
};
static const struct result_shape jump_shape = {.fields = jump_fields, .size = sizeof(struct integrity_report_jump)};
static const struct result_field jump_item = {.type = RESULT_OBJECT, .shape = &jump_shape};

#define GAP(field) offsetof(struct integrity_report_gap, field)

static const struct result_field gap_fields[] = {
    {.name = "after",
     .type = RESULT_OBJECT,
     .offset = GAP(after),
     .shape = &reference_shape,
     .help = "The last checkpoint before it"},
    {.name = "before",
     .type = RESULT_OBJECT,
     .offset = GAP(before),
     .shape = &reference_shape,
     .help = "The first checkpoint behind it"},
    {.name = "missing",
     .type = RESULT_INTEGER,
     .offset = GAP(missing),
     .help = "How many checkpoints the spacing around would have had between"},
    {0},
};
static const struct result_shape gap_shape = {.fields = gap_fields, .size = sizeof(struct integrity_report_gap)};
static const struct result_field gap_item = {.type = RESULT_OBJECT, .shape = &gap_shape};

/* The store makes this list as JSON: these rows only describe it, so that offsets are of no use. */
static const struct result_field broken_fields[] = {
    {.name = "checkpoint", .type = RESULT_TEXT, .help = "Id of the checkpoint"},
    {.name = "name", .type = RESULT_TEXT, .help = "Name of the checkpoint"},
    {.name = "tensor", .type = RESULT_TEXT, .help = "Name of the tensor"},
    {.name = "nan", .type = RESULT_INTEGER, .help = "Numbers that are NaN"},
    {.name = "infinite", .type = RESULT_INTEGER, .help = "Numbers that are infinite"},
    {0},
};
static const struct result_shape broken_shape = {.fields = broken_fields};
static const struct result_field broken_item = {.type = RESULT_OBJECT, .shape = &broken_shape};

/* ---- The answer ---- */

#define REPORT(field) offsetof(struct integrity_report, field)

static const struct result_field report_fields[] = {
    {.name = "trajectory", .type = RESULT_TEXT, .offset = REPORT(trajectory), .help = "Its name"},
    {.name = "checkpoints", .type = RESULT_INTEGER, .offset = REPORT(checkpoints), .help = "How many it has"},
    {.name = "measured",
     .type = RESULT_INTEGER,
     .offset = REPORT(measured),
     .help = "How many of them a run of the kind health has read"},
    {.name = "marked", .type = RESULT_INTEGER, .offset = REPORT(marked), .help = "How many have a flag"},
    {.name = "clean",
     .type = RESULT_BOOLEAN,
     .offset = REPORT(clean),
     .absence = RESULT_NULL,
     .has_when = true,
     .when = REPORT(clean_known),
     .help = "true: every checkpoint was read and none has a flag; false: one has; null: none of those read has, and "
             "not all were"},
    {.name = "constant_matrices",
     .type = RESULT_INTEGER,
     .offset = REPORT(constant_matrices),
     .help = "Matrices that are the same in every measured checkpoint"},
    {.name = "points",
     .type = RESULT_LIST,
     .offset = REPORT(points),
     .count = REPORT(point_count),
     .item = &point_item,
     .help = "Every checkpoint, in the order of training; nulls where it was not measured"},
    {.name = "identical",
     .type = RESULT_LIST,
     .offset = REPORT(groups),
     .count = REPORT(group_count),
     .item = &group_item,
     .help = "Checkpoints with the same weights"},
    {.name = "mixed",
     .type = RESULT_LIST,
     .offset = REPORT(shares),
     .count = REPORT(share_count),
     .item = &share_item,
     .help = "Checkpoints with some of another one's weights"},
    {.name = "jumps",
     .type = RESULT_LIST,
     .offset = REPORT(jumps),
     .count = REPORT(jump_count),
     .item = &jump_item,
     .help = "Checkpoints that are far from their neighbours"},
    {.name = "not_finite",
     .type = RESULT_DOCUMENT,
     .offset = REPORT(not_finite),
     .item = &broken_item,
     .help = "At most 200 tensors"},
    {.name = "gaps",
     .type = RESULT_LIST,
     .offset = REPORT(gaps),
     .count = REPORT(gap_count),
     .item = &gap_item,
     .help = "Where the steps of checkpoints are farther apart than around"},
    {0},
};
const struct result_shape integrity_report_shape = {.name = "Integrity", .fields = report_fields};

void integrity_report_reset(struct integrity_report *report)
{
    memory_free(report->points);
    memory_free(report->groups);
    memory_free(report->shares);
    memory_free(report->jumps);
    memory_free(report->gaps);
    memory_free(report->members);
    json_decref(report->examples);
    json_decref(report->not_finite);
    *report = (struct integrity_report){0};
}
