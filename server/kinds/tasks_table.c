#include "kinds/tasks_table.h"

#include "kinds/metric.h"

/* --- Metrics ---- */

#define CHANGE_HELP "Quantized less full precision, on the same items"

/* The accuracy, and its change through quantization. */
#define METRICS(variable, metric, title, text)                                                            \
    static const struct result_metric variable##_metric = {                                               \
        .name = metric, .label = title, .help = text, .better = RESULT_HIGHER, .format = RESULT_PERCENT}; \
    static const struct result_metric variable##_change_metric = {.name = metric "_change",               \
                                                                  .label = "Change of " title,            \
                                                                  .help = CHANGE_HELP,                    \
                                                                  .better = RESULT_HIGHER,                \
                                                                  .format = RESULT_PERCENT,               \
                                                                  .of_method = true}

METRICS(accuracy, "accuracy", "Accuracy", "Share of items whose likeliest choice is the right one");
METRICS(accuracy_norm, "accuracy_norm", "Accuracy by character",
        "The same by log-likelihood per character, also of tasks for which the harness reports none (`metrics`)");
METRICS(mean_accuracy, "mean_accuracy", "Mean accuracy", "Over the tasks, each weighing the same");
METRICS(mean_accuracy_norm, "mean_accuracy_norm", "Mean accuracy by character",
        "By log-likelihood per character, over the tasks for which the harness reports it; null when there is none");

/* --- Scores ---- */

#define MEASURE(field)   offsetof(struct tasks_table_measure, field)
#define FULL(field)      MEASURE(found.accuracy[TASKS_FULL].field)
#define QUANTIZED(field) MEASURE(found.accuracy[TASKS_QUANTIZED].field)
#define CHANGE(field)    MEASURE(found.difference.field)
#define WITH_METHOD      .absence = RESULT_LEFT_OUT, .has_when = true, .when = MEASURE(quantized)
#define INTERVAL_HELP    "95 % interval: Wilson's; of a mean, made of those of its tasks (Zou and Donner)"
#define CHANGE_INTERVAL_HELP                                                                                       \
    "At least 95 %: Clopper and Pearson's limits of the direction of flips times Wilson's of their share. Of one " \
    "task, 0 lies outside exactly when McNemar's p is below 0.05; of a mean, made of those of its tasks"
#define TEST_HELP "Of McNemar's test, exact, two-sided"
#define NO_TEST_HELP                                                                                                \
    "Null: the mean weighs tasks alike, McNemar's test of all items together does not. The interval of the mean's " \
    "change is its test, and each task has its own p"

/* clang-format off */
#define MEASURE_FIELDS(name_, kind_, variable_, finite_, quantized_, test_, test_help_) \
    {.name = name_, .type = RESULT_NUMBER, .offset = FULL(value), .finite = finite_, .metric = &variable_##_metric, \
     .spread = RESULT_BETWEEN, .spread_low = FULL(low), .spread_high = FULL(high)}, \
    {.name = name_ "_interval", .type = RESULT_INTERVAL, .offset = FULL(low), .high = FULL(high), .later = true, \
     .help = INTERVAL_HELP}, \
    {.name = name_ "_stderr", .type = RESULT_NUMBER, .offset = FULL(error), .later = true, .help = "Standard error"}, \
    {.name = name_ "_q", .type = RESULT_NUMBER, .offset = QUANTIZED(value), .finite = true, \
     .metric = &variable_##_metric, .label = quantized_, .format = RESULT_PERCENT, \
     .of_method = true, .spread = RESULT_BETWEEN, .spread_low = QUANTIZED(low), .spread_high = QUANTIZED(high), \
     .help = "The quantized model's", WITH_METHOD}, \
    {.name = name_ "_q_interval", .type = RESULT_INTERVAL, .offset = QUANTIZED(low), .high = QUANTIZED(high), \
     .help = INTERVAL_HELP, WITH_METHOD}, \
    {.name = name_ "_q_stderr", .type = RESULT_NUMBER, .offset = QUANTIZED(error), \
     .help = "Standard error", WITH_METHOD}, \
    {.name = name_ "_change", .type = RESULT_NUMBER, .offset = CHANGE(value), .finite = true, \
     .metric = &variable_##_change_metric, .spread = RESULT_BETWEEN, \
     .spread_low = CHANGE(low), .spread_high = CHANGE(high), \
     WITH_METHOD}, \
    {.name = name_ "_change_interval", .type = RESULT_INTERVAL, .offset = CHANGE(low), .high = CHANGE(high), \
     .help = CHANGE_INTERVAL_HELP, WITH_METHOD}, \
    {.name = "flips" kind_ "_up", .type = RESULT_INTEGER, .offset = MEASURE(found.up), \
     .help = "Items that only the quantized model gets right", WITH_METHOD}, \
    {.name = "flips" kind_ "_down", .type = RESULT_INTEGER, .offset = MEASURE(found.down), \
     .help = "Items that only the original gets right", WITH_METHOD}, \
    {.name = "mcnemar" kind_ "_p", .type = RESULT_NUMBER, .offset = MEASURE(found.mcnemar), .finite = test_, \
     .help = test_help_, WITH_METHOD}, \
    {0}
/* clang-format on */

static const struct result_field plain_fields[] = {
    MEASURE_FIELDS("accuracy", "", accuracy, true, "Quantized accuracy", true, TEST_HELP)};
static const struct result_field normalised_fields[] = {
    MEASURE_FIELDS("accuracy_norm", "_norm", accuracy_norm, true, "Quantized accuracy by character", true, TEST_HELP)};
static const struct result_field mean_plain_fields[] = {
    MEASURE_FIELDS("mean_accuracy", "", mean_accuracy, true, "Quantized mean accuracy", false, NO_TEST_HELP)};
static const struct result_field mean_normalised_fields[] = {
    MEASURE_FIELDS("mean_accuracy_norm", "_norm", mean_accuracy_norm, false, "Quantized mean accuracy by character",
                   false, NO_TEST_HELP)};
static const struct result_shape plain_shape = {.fields = plain_fields};
static const struct result_shape normalised_shape = {.fields = normalised_fields};
static const struct result_shape mean_plain_shape = {.fields = mean_plain_fields};
static const struct result_shape mean_normalised_shape = {.fields = mean_normalised_fields};

#define SCORE(field) offsetof(struct tasks_table_score, field)

static const struct result_field score_fields[] = {
    {.name = "name", .type = RESULT_CHARS, .offset = SCORE(name), .help = "Of the task, the group or the subject"},
    {.name = "n", .type = RESULT_INTEGER, .offset = SCORE(items), .help = "Items"},
    {.name = "stderr",
     .type = RESULT_NUMBER,
     .offset = SCORE(plain.found.accuracy[TASKS_FULL].error),
     .help = "Standard error of the accuracy"},
    {.type = RESULT_MERGED, .offset = SCORE(plain), .shape = &plain_shape},
    {.type = RESULT_MERGED, .offset = SCORE(normalised), .shape = &normalised_shape},
    {0},
};
const struct result_shape tasks_table_score_shape = {
    .name = "TaskScore",
    .help = "Accuracies as lm-evaluation-harness counts them (`acc`, and `acc_norm` by log-likelihood per character);"
            " `metrics` says which of them the harness reports",
    .fields = score_fields,
    .size = sizeof(struct tasks_table_score)};
const struct result_shape *const tasks_table_measured[] = {&tasks_table_score_shape, NULL};

/* --- Tasks, and the whole ---- */

static const struct result_field score_item = {.type = RESULT_OBJECT, .shape = &tasks_table_score_shape};
static const struct result_field text_item = {.type = RESULT_TEXT};

#define TASK(field) offsetof(struct tasks_table_task, field)

static const struct result_field task_fields[] = {
    {.type = RESULT_MERGED, .offset = TASK(score), .shape = &tasks_table_score_shape},
    {.name = "metrics",
     .type = RESULT_LIST,
     .offset = TASK(metrics),
     .count = TASK(metric_count),
     .item = &text_item,
     .help = "Those that the harness reports"},
    {.name = "shots", .type = RESULT_INTEGER, .offset = TASK(shots), .help = "Examples before each question"},
    {.name = "sha256", .type = RESULT_TEXT, .offset = TASK(sha256), .help = "Of the file of items"},
    {.name = "fewshot_sha256",
     .type = RESULT_TEXT,
     .offset = TASK(fewshot_sha256),
     .absence = RESULT_NULL,
     .help = "Of the file of examples; null without shots"},
    {.name = "groups",
     .type = RESULT_LIST,
     .offset = TASK(groups),
     .count = TASK(group_count),
     .item = &score_item,
     .absence = RESULT_LEFT_OUT,
     .help = "mmlu's four"},
    {.name = "subjects",
     .type = RESULT_LIST,
     .offset = TASK(subjects),
     .count = TASK(subject_count),
     .item = &score_item,
     .absence = RESULT_LEFT_OUT,
     .help = "Of a task that has some"},
    {0},
};
static const struct result_shape task_shape = {.fields = task_fields, .size = sizeof(struct tasks_table_task)};
static const struct result_field task_item = {.type = RESULT_OBJECT, .shape = &task_shape};

#define TABLE(field) offsetof(struct tasks_table, field)

static const struct result_field table_fields[] = {
    {.name = "tasks",
     .type = RESULT_LIST,
     .offset = TABLE(tasks),
     .count = TABLE(task_count),
     .item = &task_item,
     .help = "In the order asked"},
    {.type = RESULT_MERGED, .offset = TABLE(mean.plain), .shape = &mean_plain_shape},
    {.type = RESULT_MERGED, .offset = TABLE(mean.normalised), .shape = &mean_normalised_shape},
    {.name = "protocol_id",
     .type = RESULT_TEXT,
     .offset = TABLE(protocol),
     .help = "Hash of the files, their examples, how they are asked and the arithmetic: curves never mix two"},
    {.name = "items", .type = RESULT_INTEGER, .offset = TABLE(item_count), .help = "Of all tasks"},
    {.name = "tokens_computed",
     .type = RESULT_INTEGER,
     .offset = TABLE(tokens_computed),
     .help = "Tokens that went through the models"},
    {.name = "tokens_alone",
     .type = RESULT_INTEGER,
     .offset = TABLE(tokens_alone),
     .help = "Tokens that feeding every choice separately would have taken"},
    {.name = "truncated",
     .type = RESULT_INTEGER,
     .offset = TABLE(truncated),
     .help = "Choices whose beginning did not fit the model's positions"},
    {.name = "bits_per_weight",
     .type = RESULT_NUMBER,
     .offset = TABLE(bits_per_weight),
     .metric = &metric_bits_per_weight,
     .unkept = true,
     .absence = RESULT_LEFT_OUT,
     .has_when = true,
     .when = TABLE(quantized)},
    {0},
};
const struct result_shape tasks_table_shape = {
    .name = "TasksResult",
    .help = "The means weigh every task the same. Fields of a quantized model (`_q`, `_change`, flips) are there"
            " with a method.",
    .fields = table_fields};
