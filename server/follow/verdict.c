#include "follow/verdict.h"

#include "base/buffer.h"
#include "follow/gate_rules.h"
#include "follow/verdict_change.h"
#include "kinds/integrity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_MOST = 5 /* values of series that a reason names */ };

enum outcome { OUTCOME_PASS, OUTCOME_PENDING, OUTCOME_FAIL }; /* the larger one decides */

static const char *const words[] = {[OUTCOME_PASS] = "pass", [OUTCOME_PENDING] = "pending", [OUTCOME_FAIL] = "fail"};

/* One series held against one rule. */
struct judgement {
    enum outcome outcome;
    double limit;  /* on the value; NaN: there is none */
    bool compared; /* an interval with a limit, or with the last checkpoints: straddles says something */
    bool straddles;
    const char *reason; /* why it is pending, or failed without a value; or NULL */
};

static const struct gate_limit *limit_of(const json_t *rule)
{
    const struct gate_limit *limit = gate_limits;
    while (limit->name != NULL && !json_is_number(json_object_get(rule, limit->name))) limit++;
    return limit;
}

/* The limit on the value itself, made of what came before where it is a ratio or a change. */
static double absolute(const struct gate_limit *limit, double number, const json_t *base, const char **reason)
{
    const double before = json_is_number(base) ? json_number_value(base) : NAN;
    if (limit->of == LIMIT_VALUE) return number;
    if (isnan(before)) {
        *reason = "no checkpoint before it is measured in this series";
        return NAN;
    }
    if (limit->of == LIMIT_CHANGE) return before + number;
    if (before > 0) return before * number;
    *reason = "the median before is not positive, so that a ratio to it says nothing: use max_change or min_change";
    return NAN;
}

/* Where the interval holds both sides the rule itself may decide. */
static void decide(const json_t *rule, bool fails, struct judgement *out)
{
    const char *straddle = json_string_value(json_object_get(rule, "straddle"));
    out->compared = true;
    out->outcome = fails ? OUTCOME_FAIL : OUTCOME_PASS;
    if (out->straddles && strcmp(straddle, "fail") == 0) out->outcome = OUTCOME_FAIL;
    if (out->straddles && strcmp(straddle, "pass") == 0) out->outcome = OUTCOME_PASS;
}

/* A rule that fails where its interval holds the limit asks for an interval: without one it is not passed. */
static void without_interval(const json_t *rule, struct judgement *out)
{
    out->compared = false;
    if (out->outcome != OUTCOME_PASS || strcmp(json_string_value(json_object_get(rule, "straddle")), "fail") != 0)
        return;
    out->outcome = OUTCOME_PENDING;
    out->reason = "the value has no interval, so that the limit may lie inside it: measure it on more sequences";
}

static struct judgement judge_limit(const json_t *rule, const json_t *found)
{
    const struct gate_limit *limit = limit_of(rule);
    struct judgement out = {.outcome = OUTCOME_PENDING, .limit = NAN};
    out.limit = absolute(limit, json_number_value(json_object_get(rule, limit->name)), json_object_get(found, "base"),
                         &out.reason);
    if (isnan(out.limit)) return out;
    const double value = json_number_value(json_object_get(found, "value"));
    const json_t *low = json_object_get(found, "low"), *high = json_object_get(found, "high");
    const bool known = json_is_number(low) && json_is_number(high);
    out.straddles = known && json_number_value(low) < out.limit && out.limit < json_number_value(high);
    decide(rule, !(limit->upper ? value <= out.limit : value >= out.limit), &out);
    if (!known) without_interval(rule, &out);
    return out;
}

static enum status judge_change(const json_t *rule, json_t *item, struct changepoints_tests *tests,
                                struct judgement *out, struct error *error)
{
    struct verdict_change change;
    const enum status status = verdict_change_test(rule, item, tests, &change, error);
    *out = (struct judgement){.outcome = OUTCOME_PENDING, .limit = NAN};
    if (status != STATUS_OK) return status;
    out->reason = change.reason;
    out->straddles = change.straddles;
    if (change.reason == NULL) decide(rule, change.recent, out);
    return STATUS_OK;
}

static json_t *number_or_null(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

static json_t *interval_of(const json_t *found)
{
    json_t *low = json_object_get(found, "low"), *high = json_object_get(found, "high");
    return json_is_number(low) && json_is_number(high) ? json_pack("[OO]", low, high) : json_null();
}

/* `found`: the series that is shown; NULL: none. `flags` is taken, NULL for none. */
static json_t *render(json_t *rule, const struct judgement *judgement, const json_t *found, json_t *flags)
{
    return json_pack("{sO ss sO? so so so sO? sO? sO? sO? so? sO? sO? ss?}", "rule", rule, "verdict",
                     words[judgement->outcome], "value", json_object_get(found, "value"), "interval",
                     interval_of(found), "limit", number_or_null(judgement->limit), "straddles",
                     judgement->compared ? json_boolean(judgement->straddles) : json_null(), "run",
                     json_object_get(found, "run"), "series", json_object_get(found, "series"), "base",
                     json_object_get(found, "base"), "compared_with", json_object_get(found, "compared_with"), "flags",
                     flags, "change", json_object_get(found, "change"), "p_value", json_object_get(found, "p_value"),
                     "reason", judgement->reason);
}

/* Nothing fits the rule at this checkpoint. Where nothing of the trajectory ever does, the rule may have a typo: names
 * what there is. `reason` is appended to. */
static enum status tell_unmatched(struct connection *connection, const struct gate_question *question,
                                  struct buffer *reason, struct error *error)
{
    json_t *found = NULL, *value;
    size_t i;
    enum status status = gate_unmatched(connection, question, SHOWN_MOST + 1, &found, error);
    const json_t *there = json_object_get(found, "there");
    if (status == STATUS_OK && json_is_object(found)) {
        buffer_printf(reason, "not measured: no series of %s in this trajectory has the %s \"%s\"; there %s",
                      question->metric, json_string_value(json_object_get(found, "key")),
                      json_string_value(json_object_get(found, "asked")), json_array_size(there) == 1 ? "is" : "are");
        json_array_foreach(there, i, value)
        {
            if (i == SHOWN_MOST)
                buffer_puts(reason, " and others");
            else
                buffer_printf(reason, "%s \"%s\"", i > 0 ? "," : "", json_string_value(value));
        }
        status = buffer_status(reason, "a reason", error);
    }
    json_decref(found);
    return status;
}

/* Nothing is measured: a run may have found that there is no finite number, which a limit is not kept by. *found: of
 * that run; the caller's. */
static enum status judge_absent(struct connection *connection, const struct gate_question *question,
                                struct judgement *out, json_t **found, struct buffer *reason, struct error *error)
{
    const enum status status = gate_not_finite(connection, question, found, error);
    if (status != STATUS_OK) return status;
    if (!json_is_object(*found)) return tell_unmatched(connection, question, reason, error);
    out->outcome = OUTCOME_FAIL;
    out->reason = "not finite: the run that measured it found no finite number, and its result says why";
    return STATUS_OK;
}

static enum status judge_metric(struct connection *connection, const struct checkpoint *checkpoint, json_t *rule,
                                enum outcome *outcome, json_t **out, struct error *error)
{
    const bool change = json_is_integer(json_object_get(rule, "changepoint"));
    const struct gate_question question = {
        .checkpoint = checkpoint->id.text,
        .metric = json_string_value(json_object_get(rule, "metric")),
        .series = json_object_get(rule, "series"),
        .last = change ? GATE_CHANGE_MOST : json_integer_value(json_object_get(rule, "against_last")),
    };
    json_t *list = NULL, *item, *shown = NULL, *absent = NULL;
    struct judgement worst = {.outcome = OUTCOME_PENDING, .limit = NAN, .reason = "not measured"};
    struct buffer unmatched = {0};
    size_t i;
    enum status status =
        change ? gate_history(connection, &question, &list, error) : gate_values(connection, &question, &list, error);
    if (status != STATUS_OK) return status;
    struct changepoints_tests tests = {.model = NULL};
    const char *refused = NULL;
    if (change) status = verdict_change_begin(rule, list, &tests, &refused, error);
    if (refused != NULL) worst.reason = refused;
    json_array_foreach(list, i, item)
    {
        struct judgement one;
        if (refused != NULL || status != STATUS_OK) break;
        if (change)
            status = judge_change(rule, item, &tests, &one, error);
        else
            one = judge_limit(rule, item);
        if (status != STATUS_OK) break;
        if (shown != NULL && one.outcome <= worst.outcome) continue;
        worst = one;
        shown = item;
    }
    if (status == STATUS_OK && json_array_size(list) == 0) {
        status = change ? tell_unmatched(connection, &question, &unmatched, error)
                        : judge_absent(connection, &question, &worst, &absent, &unmatched, error);
        shown = absent;
    }
    if (unmatched.length > 0) worst.reason = unmatched.bytes;
    *outcome = worst.outcome;
    if (status == STATUS_OK && (*out = render(rule, &worst, shown, NULL)) == NULL)
        status = error_no_memory(error, "a verdict");
    buffer_reset(&unmatched);
    changepoints_tests_reset(&tests);
    json_decref(absent);
    json_decref(list);
    return status;
}

/* Flags of the checkpoints of a trajectory: those that are kept, or else read, and kept. The caller owns *out. */
static enum status flags_of(struct connection *connection, const char *trajectory, json_t *kept, json_t **out,
                            struct error *error)
{
    if ((*out = json_incref(json_object_get(kept, trajectory))) != NULL) return STATUS_OK;
    const enum status status = integrity_flags(connection, &trajectory, 1, out, error);
    if (status != STATUS_OK || kept == NULL || json_object_set(kept, trajectory, *out) == 0) return status;
    return error_no_memory(error, "a verdict");
}

static enum status judge_integrity(struct connection *connection, const struct gate_row *gate,
                                   const struct checkpoint *checkpoint, json_t *rule, json_t *kept,
                                   enum outcome *outcome, json_t **out, struct error *error)
{
    bool read = false;
    json_t *all = NULL, *flags = NULL;
    struct judgement judgement = {.outcome = OUTCOME_PENDING, .limit = NAN, .reason = "its weights were not read"};
    enum status status = gate_read(connection, checkpoint->id.text, &read, error);
    if (status == STATUS_OK && read) status = flags_of(connection, gate->trajectory.text, kept, &all, error);
    if (status != STATUS_OK) {
        json_decref(all);
        return status;
    }
    if (read) {
        flags = json_incref(json_object_get(all, checkpoint->id.text));
        if (flags == NULL) flags = json_array();
        judgement.outcome = json_array_size(flags) == 0 ? OUTCOME_PASS : OUTCOME_FAIL;
        judgement.reason = NULL;
    }
    json_decref(all);
    *outcome = judgement.outcome;
    *out = render(rule, &judgement, NULL, flags);
    return *out != NULL ? STATUS_OK : error_no_memory(error, "a verdict");
}

enum status verdict_make(struct connection *connection, const struct gate_row *gate,
                         const struct checkpoint *checkpoint, json_t *kept, json_t **out, struct error *error)
{
    json_t *rules = json_array(), *rule;
    enum outcome worst = OUTCOME_PASS;
    enum status status = rules == NULL ? error_no_memory(error, "a verdict") : STATUS_OK;
    size_t i;
    *out = NULL;
    json_array_foreach(gate->rules, i, rule)
    {
        enum outcome outcome = OUTCOME_PENDING;
        json_t *one = NULL;
        if (status != STATUS_OK) break;
        status = json_is_string(json_object_get(rule, "integrity"))
                     ? judge_integrity(connection, gate, checkpoint, rule, kept, &outcome, &one, error)
                     : judge_metric(connection, checkpoint, rule, &outcome, &one, error);
        if (status == STATUS_OK && json_array_append_new(rules, one) != 0) status = error_no_memory(error, "a verdict");
        if (outcome > worst) worst = outcome;
    }
    if (status == STATUS_OK) {
        *out = json_pack("{ss ss ss ss ss ss so ss sO}", "gate", gate->name, "gate_id", gate->id.text, "trajectory",
                         gate->trajectory_name, "trajectory_id", gate->trajectory.text, "checkpoint",
                         checkpoint->id.text, "checkpoint_name", checkpoint->name, "step",
                         checkpoint->step >= 0 ? json_integer(checkpoint->step) : json_null(), "verdict", words[worst],
                         "rules", rules);
        if (*out == NULL) status = error_no_memory(error, "a verdict");
    }
    json_decref(rules);
    return status;
}
