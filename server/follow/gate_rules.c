#include "follow/gate_rules.h"

#include "kinds/method.h"
#include "kinds/metrics.h"
#include "quant/quantize_method.h"

#include <stdio.h>
#include <string.h>

/* What the table fills; rules are read from their documents. */
struct rule {
    const char *metric, *series;
    double limits[6];
    int64_t against_last, changepoint, from;
    int straddle, integrity;
};

static const char *const straddles[] = {"value", "fail", "pass", NULL};
static const char *const integrities[] = {"clean", NULL};

const struct gate_limit gate_limits[] = {
    {"max", true, LIMIT_VALUE},        {"min", false, LIMIT_VALUE},        {"max_ratio", true, LIMIT_RATIO},
    {"min_ratio", false, LIMIT_RATIO}, {"max_change", true, LIMIT_CHANGE}, {"min_change", false, LIMIT_CHANGE},
    {NULL, false, LIMIT_VALUE},
};

#define LIMIT_PARAM(text, place, about)                                                                         \
    {                                                                                                           \
        .name = text, .type = PARAM_NUMBER, .offset = offsetof(struct rule, limits) + (place) * sizeof(double), \
        .fallback = "null", .nullable = true, .help = about                                                     \
    }

static const struct param rule_fields[] = {
    {.name = "metric",
     .type = PARAM_STRING,
     .offset = offsetof(struct rule, metric),
     .fallback = "null",
     .nullable = true,
     .maximum = 64,
     .help = "A measured number (GET /v1/metrics)"},
    {.name = "series",
     .type = PARAM_JSON,
     .offset = offsetof(struct rule, series),
     .fallback = "{}",
     .help = "Only of series with these values: label (`method_label` of measurements), dataset, protocol, calibration,"
             " method, or a field of the method like method.bits. Where several fit, each must be within the limit"},
    LIMIT_PARAM("max", 0, "The value may not be above it"),
    LIMIT_PARAM("min", 1, "The value may not be below it"),
    LIMIT_PARAM("max_ratio", 2, "Value over the median of the checkpoints before; may not be above it"),
    LIMIT_PARAM("min_ratio", 3, "Value over the median of the checkpoints before; may not be below it"),
    LIMIT_PARAM("max_change", 4, "Value minus the median of the checkpoints before; may not be above it"),
    LIMIT_PARAM("min_change", 5, "Value minus the median of the checkpoints before; may not be below it"),
    {.name = "against_last",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct rule, against_last),
     .fallback = "null",
     .nullable = true,
     .minimum = 1,
     .maximum = GATE_LAST_MOST,
     .help = "How many checkpoints before it, of those that are measured in the series; for ratios and changes"},
    {.name = "changepoint",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct rule, changepoint),
     .fallback = "null",
     .minimum = GATE_CHANGE_LEAST,
     .maximum = GATE_CHANGE_MOST,
     .help =
         "In place of a limit: the series up to the checkpoint, over 100 checkpoints at most, may not have a change "
         "point among its last so many measured ones"},
    {.name = "from",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct rule, from),
     .fallback = "null",
     .minimum = 0,
     .maximum = 9007199254740992,
     .help = "With changepoint: only checkpoints from this step on; left out: all"},
    {.name = "straddle",
     .type = PARAM_CHOICE,
     .offset = offsetof(struct rule, straddle),
     .fallback = "\"value\"",
     .choices = straddles,
     .help =
         "What decides where the 95 % interval holds the limit, or that of a change begins before the last ones: the "
         "value or the found place, or always fail, or always pass. With fail a value without an interval is pending, "
         "not passed"},
    {.name = "integrity",
     .type = PARAM_CHOICE,
     .offset = offsetof(struct rule, integrity),
     .fallback = "null",
     .nullable = true,
     .choices = integrities,
     .help = "In place of a metric: the checkpoint's weights were read, and nothing is wrong with them"},
    {0},
};

const struct param gate_rule = {.type = PARAM_OBJECT,
                                .schema = "GateRule",
                                .children = rule_fields,
                                .size = sizeof(struct rule),
                                .help = "One condition"};

static bool is_set(const json_t *rule, const char *field)
{
    const json_t *value = json_object_get(rule, field);
    return value != NULL && !json_is_null(value);
}

static const struct gate_limit *count_limits(const json_t *rule, int *count)
{
    const struct gate_limit *found = NULL;
    *count = 0;
    for (const struct gate_limit *limit = gate_limits; limit->name != NULL; limit++)
        if (is_set(rule, limit->name)) {
            found = limit;
            (*count)++;
        }
    return found;
}

static bool has_choice(const char *const *choices, const char *word)
{
    while (word != NULL && *choices != NULL && strcmp(*choices, word) != 0) choices++;
    return word != NULL && *choices != NULL;
}

/* What a value of the parameter is in JSON; NULL: no single value, or `value` is one. */
static const char *wanted_of(const struct param *param, const json_t *value)
{
    if (json_is_null(value) && param->nullable) return NULL;
    if (param->type == PARAM_INTEGER || param->type == PARAM_NUMBER) return json_is_number(value) ? NULL : "a number";
    if (param->type == PARAM_BOOLEAN) return json_is_boolean(value) ? NULL : "true or false";
    if (param->type == PARAM_CHOICE)
        return has_choice(param->choices, json_string_value(value)) ? NULL : "one of the field's words";
    return param->type != PARAM_STRING || json_is_string(value) ? NULL : "a text";
}

/* Whether any quantizer has the parameter. *wanted: NULL where one of them has it with a value like this, else what one
 * expects. */
static bool method_has(const char *name, const json_t *value, const char **wanted)
{
    bool found = false;
    *wanted = NULL;
    for (const struct param_variant *variant = quantize_method_variants; variant->name != NULL; variant++)
        for (const struct param *param = variant->params; param->type != PARAM_END; param++) {
            if (strcmp(param->name, name) != 0) continue;
            const char *expected = wanted_of(param, value);
            if (!found || expected == NULL) *wanted = expected;
            found = true;
            if (expected == NULL) return true;
        }
    return found;
}

/* The same of a key of "series". */
static bool series_has(const char *key, const json_t *value, const char **wanted)
{
    static const char *const keys[] = {"label", "dataset", "protocol", "calibration", "method", "method.name"};
    *wanted = json_is_string(value) ? NULL : "a text";
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i], key) == 0) return true;
    return strncmp(key, "method.", 7) == 0 && method_has(key + 7, value, wanted);
}

/* A gate on a method that does not exist would never be decided. */
static void check_method(const json_t *name, const char *place, struct faults *faults)
{
    char known[METHODS_TEXT];
    const char *text = json_string_value(name);
    if (text == NULL)
        faults_add(faults, place, "must be the name of a method, or \"\" for full precision");
    else if (text[0] != '\0' && !method_known(text, known))
        faults_add(faults, place, "no method is named \"%.60s\"; there are %s", text, known);
}

static void check_series(json_t *series, const char *pointer, struct faults *faults)
{
    const char *key;
    json_t *value;
    json_object_foreach(series, key, value)
    {
        char place[256];
        const char *wanted;
        faults_pointer(place, sizeof place, pointer, key);
        if (!series_has(key, value, &wanted))
            faults_add(faults, place,
                       "unknown; known here: label, dataset, protocol, calibration, method, and the"
                       " fields of methods as method.NAME, like method.bits");
        else if (json_is_object(value) || json_is_array(value))
            faults_add(faults, place, "must be a single value");
        else if (strcmp(key, "method.name") == 0 || strcmp(key, "method") == 0)
            check_method(value, place, faults);
        else if (wanted != NULL) /* no series would ever fit */
            faults_add(faults, place, "must be %s", wanted);
    }
}

static void check_metric(const json_t *rule, const char *pointer, struct faults *faults)
{
    const char *name = json_string_value(json_object_get(rule, "metric"));
    char place[256];
    faults_pointer(place, sizeof place, pointer, "metric");
    if (metrics_measured(name)) return;
    if (metrics_find(name) != NULL) { /* its verdict would be pending for ever */
        faults_add(faults, place, "\"%.60s\" is a property of the checkpoint, which no run measures", name);
        return;
    }
    const char *nearest = metrics_nearest(name);
    faults_add(faults, place, "no measured number is named \"%.60s\"%s%s%s", name,
               nearest != NULL ? "; did you mean \"" : ": GET /v1/metrics lists them", nearest != NULL ? nearest : "",
               nearest != NULL ? "\"?" : "");
}

static void check_rule(const json_t *rule, const char *pointer, struct faults *faults)
{
    int count;
    const struct gate_limit *limit = count_limits(rule, &count);
    const bool last = is_set(rule, "against_last"), change = is_set(rule, "changepoint");
    if (is_set(rule, "integrity")) {
        if (is_set(rule, "metric") || count > 0 || last || change)
            faults_add(faults, pointer, "either a metric or integrity, not both");
        return;
    }
    if (!is_set(rule, "metric")) {
        faults_add(faults, pointer, "give a metric with a limit or changepoint, or integrity");
        return;
    }
    check_metric(rule, pointer, faults);
    char place[256];
    faults_pointer(place, sizeof place, pointer, "series");
    check_series(json_object_get(rule, "series"), place, faults);
    faults_pointer(place, sizeof place, pointer, "from");
    if (is_set(rule, "from") && !change) faults_add(faults, place, "means nothing without changepoint");
    if (count + change != 1) {
        faults_add(faults, pointer,
                   "give one of max, min, max_ratio, min_ratio, max_change, min_change, changepoint; found %d of them",
                   count + change);
        return;
    }
    faults_pointer(place, sizeof place, pointer, "against_last");
    if (change && last) faults_add(faults, place, "means nothing for changepoint");
    if (change) return;
    if (limit->of != LIMIT_VALUE && !last) faults_add(faults, place, "is missing: %s compares with it", limit->name);
    if (limit->of == LIMIT_VALUE && last) faults_add(faults, place, "means nothing for %s", limit->name);
}

void gate_rules_check(const json_t *rules, const char *pointer, struct faults *faults)
{
    for (size_t i = 0; i < json_array_size(rules); i++) {
        char place[256], number[24];
        (void)snprintf(number, sizeof number, "%zu", i);
        faults_pointer(place, sizeof place, pointer, number);
        check_rule(json_array_get(rules, i), place, faults);
    }
}
