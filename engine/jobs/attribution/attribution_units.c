#include "jobs/attribution/attribution_units.h"

#include "base/memory.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char ending[] = ".weight";

/* Letters, digits and underscores stand for themselves in a pattern. */
static void escape(const char *text, size_t length, char *out, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < length && at + 3 < size; i++) {
        if (isalnum((unsigned char)text[i]) == 0 && text[i] != '_') out[at++] = '\\';
        out[at++] = text[i];
    }
    out[at] = '\0';
}

/* The place of the layer's number, as a component of its own, in a module's name; NULL: none. */
static const char *layer_in(const char *name, int64_t layer, size_t *length)
{
    char number[24];
    *length = (size_t)snprintf(number, sizeof number, "%" PRId64, layer);
    for (const char *part = name; part != NULL; part = strchr(part, '.')) {
        if (*part == '.') part++;
        if (strncmp(part, number, *length) == 0 && part[*length] == '.') return part;
    }
    return NULL;
}

/* The part of a name in which it differs from that of the next expert. */
static void expert_span(const char *name, const char *next, size_t *from, size_t *length)
{
    *from = 0;
    while (name[*from] != '\0' && name[*from] == next[*from]) (*from)++;
    for (*length = 0; isdigit((unsigned char)name[*from + *length]) != 0;) (*length)++;
}

static enum status unit_of(const struct program *program, const struct step *step, int64_t layer,
                           struct attribution_unit *out, struct error *error)
{
    const struct parameter *first = &program->parameters[step->parameter[0]];
    const bool routed = step->op == &op_experts && step->attributes.experts.count > 1;
    const size_t whole = strlen(first->name), cut = sizeof ending - 1;
    const size_t end = whole > cut && strcmp(first->name + whole - cut, ending) == 0 ? whole - cut : whole;
    size_t number = 0, expert = end, digits = 0;
    const char *at = layer_in(first->name, layer, &number);
    if (at == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "\"%s\" does not say that it is of layer %" PRId64, first->name,
                         layer);
    if (routed) expert_span(first->name, (first + 1)->name, &expert, &digits);
    const size_t begin = (size_t)(at - first->name), after = begin + number;
    char tail[sizeof out->tail], rest[sizeof out->tail];
    *out = (struct attribution_unit){.layer = layer};
    escape(first->name, begin, out->head, sizeof out->head);
    escape(first->name + after, expert - after, tail, sizeof tail);
    escape(first->name + expert + digits, end - expert - digits, rest, sizeof rest);
    if (snprintf(out->tail, sizeof out->tail, "%s%s%s$", tail, routed ? "\\d+" : "", rest) >= (int)sizeof out->tail)
        return error_set(error, STATUS_UNSUPPORTED, "the name \"%s\" is too long for a pattern", first->name);
    (void)snprintf(out->name, sizeof out->name, "%.*s%s%.*s", (int)expert, first->name, routed ? "*" : "",
                   (int)(end - expert - digits), first->name + expert + digits);
    const int64_t count = step->op == &op_experts ? step->attributes.experts.count : 1;
    for (int64_t i = 0; i < count; i++) out->weights += first[i].rows * first[i].columns;
    return STATUS_OK;
}

/* Makes a unit of one linear the unit of the block that it lies in. */
static void widen(struct attribution_unit *unit)
{
    size_t length = 0;
    const char *at = layer_in(unit->name, unit->layer, &length);
    if (at != NULL) unit->name[(size_t)(at - unit->name) + length] = '\0';
    (void)snprintf(unit->tail, sizeof unit->tail, "\\.");
}

static bool is_linear(const struct program *program, const struct step *step)
{
    return step->parameter[0] != NO_PARAMETER && program->parameters[step->parameter[0]].linear;
}

enum status attribution_units_new(const struct model *model, enum attribution_part part, struct attribution_unit **out,
                                  int64_t *count, struct error *error)
{
    int64_t most = 0;
    *out = NULL;
    *count = 0;
    for (int64_t layer = 0; layer < model->config.layers; layer++) most += model->programs[layer].step_count;
    enum status status = memory_new(most, sizeof **out, "units", out, error);
    for (int64_t layer = 0; layer < model->config.layers && status == STATUS_OK; layer++) {
        const struct program *program = &model->programs[layer];
        for (int i = 0; i < program->step_count && status == STATUS_OK; i++) {
            struct attribution_unit unit, *last = *count > 0 ? &(*out)[*count - 1] : NULL;
            if (!is_linear(program, &program->steps[i])) continue;
            status = unit_of(program, &program->steps[i], layer, &unit, error);
            if (part == ATTRIBUTION_BLOCK && last != NULL && last->layer == layer) {
                last->weights += unit.weights;
                continue;
            }
            if (part == ATTRIBUTION_BLOCK && status == STATUS_OK) widen(&unit);
            if (status == STATUS_OK) (*out)[(*count)++] = unit;
        }
    }
    if (status == STATUS_OK) return STATUS_OK;
    memory_free(*out);
    *out = NULL;
    return status;
}

void attribution_units_pattern(const struct attribution_unit *unit, bool but, char out[ATTRIBUTION_PATTERN])
{
    (void)snprintf(out, ATTRIBUTION_PATTERN, "^%s%s%" PRId64 "%s%s", but ? "(?!" : "", unit->head, unit->layer,
                   unit->tail, but ? ")" : "");
}

static bool same_role(const struct attribution_unit *a, const struct attribution_unit *b)
{
    return strcmp(a->head, b->head) == 0 && strcmp(a->tail, b->tail) == 0;
}

static bool begins_role(const struct attribution_unit *units, int64_t i)
{
    for (int64_t k = 0; k < i; k++)
        if (same_role(&units[k], &units[i])) return false;
    return true;
}

/* "^HEAD(?:0|3|5)TAIL" of the units of one role that have so many bits (NULL: of all of them); false when it is too
 * long. */
static bool role_pattern(const struct attribution_unit *units, int64_t count, const struct attribution_unit *role,
                         const int64_t *bits, int64_t width, char out[ATTRIBUTION_PATTERN])
{
    int at = snprintf(out, ATTRIBUTION_PATTERN, "^%s(?:", role->head);
    const char *between = "";
    for (int64_t i = 0; i < count && at < ATTRIBUTION_PATTERN; i++) {
        if (!same_role(&units[i], role) || (bits != NULL && bits[i] != width)) continue;
        at += snprintf(out + at, ATTRIBUTION_PATTERN - (size_t)at, "%s%" PRId64, between, units[i].layer);
        between = "|";
    }
    if (at >= ATTRIBUTION_PATTERN) return false;
    at += snprintf(out + at, ATTRIBUTION_PATTERN - (size_t)at, ")%s", role->tail);
    return at < ATTRIBUTION_PATTERN;
}

static enum status refuse(struct error *error)
{
    return error_set(
        error, STATUS_UNSUPPORTED,
        "widths for each unit of this model take more than %d overrides, or one of more than %d bytes; take blocks",
        OVERRIDES_MAXIMUM, ATTRIBUTION_PATTERN - 1);
}

enum status attribution_units_overrides(const struct attribution_unit *units, int64_t count, const int64_t *bits,
                                        int64_t base, struct attribution_overrides *out, struct error *error)
{
    out->count = 0;
    for (int64_t i = 0; i < count; i++) {
        bool there = bits[i] == base;
        for (int64_t k = 0; k < i && !there; k++) there = bits[k] == bits[i] && same_role(&units[k], &units[i]);
        if (there) continue;
        if (out->count == OVERRIDES_MAXIMUM) return refuse(error);
        char *pattern = out->patterns[out->count];
        if (!role_pattern(units, count, &units[i], bits, bits[i], pattern)) return refuse(error);
        out->items[out->count++] = (struct quantize_override){.pattern = pattern, .bits = bits[i]};
    }
    return STATUS_OK;
}

enum status attribution_units_check(const struct attribution_unit *units, int64_t count, int64_t widths,
                                    struct error *error)
{
    char pattern[ATTRIBUTION_PATTERN];
    int64_t roles = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!begins_role(units, i)) continue;
        roles++;
        if (!role_pattern(units, count, &units[i], NULL, 0, pattern)) return refuse(error);
    }
    return roles * (widths - 1) > OVERRIDES_MAXIMUM ? refuse(error) : STATUS_OK;
}
