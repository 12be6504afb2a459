#define PCRE2_CODE_UNIT_WIDTH 8
#include "quant/overrides.h"

#include "base/memory.h"
#include "quant/quantizer.h"

#include <inttypes.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

enum { MATCH_LIMIT = 100000, HEAP_LIMIT_KIB = 4096 }; /* for names of a hundred bytes */

struct overrides {
    const struct quantize_method *method;
    int64_t count;
    pcre2_code **codes; /* [count] */
    pcre2_match_data *data;
    pcre2_match_context *context;
};

static const struct param *param_of(const struct quantize_method *method, const char *name)
{
    for (const struct param *param = quantizer_by_id(method->quantizer)->params; param->type != PARAM_END; param++)
        if (strcmp(param->name, name) == 0) return param;
    return NULL;
}

static enum status check_field(const struct quantize_method *method, int64_t index, const char *name, int64_t value,
                               struct error *error)
{
    char pointer[64];
    if (value == 0 || param_of(method, name) != NULL) return STATUS_OK;
    (void)snprintf(pointer, sizeof pointer, "/overrides/%" PRId64 "/%s", index, name);
    return error_set_at(error, STATUS_INVALID, pointer, "%s has no %s", quantizer_by_id(method->quantizer)->name, name);
}

static enum status compile(struct overrides *overrides, int64_t index, struct error *error)
{
    const struct quantize_override *item = &overrides->method->options.overrides[index];
    char pointer[64], reason[120] = "";
    int code = 0;
    PCRE2_SIZE offset = 0;
    enum status status;
    if ((status = check_field(overrides->method, index, "bits", item->bits, error)) != STATUS_OK) return status;
    if ((status = check_field(overrides->method, index, "group_size", item->group_size, error)) != STATUS_OK)
        return status;
    overrides->codes[index] =
        pcre2_compile((PCRE2_SPTR)item->pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &code, &offset, NULL);
    if (overrides->codes[index] != NULL) return STATUS_OK;
    if (code == PCRE2_ERROR_HEAP_FAILED) return error_set(error, STATUS_NO_MEMORY, "no memory for a pattern");
    (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)reason, sizeof reason);
    (void)snprintf(pointer, sizeof pointer, "/overrides/%" PRId64 "/pattern", index);
    return error_set_at(error, STATUS_INVALID, pointer, "does not compile: %s (at byte %zu)", reason, (size_t)offset);
}

enum status overrides_new(const struct quantize_method *method, struct overrides **out, struct error *error)
{
    struct overrides *overrides = NULL;
    enum status status = memory_new(1, sizeof *overrides, "overrides", &overrides, error);
    *out = NULL;
    if (status != STATUS_OK) return status;
    overrides->method = method;
    overrides->count = method->options.override_count;
    if ((status = memory_new(overrides->count, sizeof *overrides->codes, "overrides", &overrides->codes, error)) !=
        STATUS_OK)
        goto done;
    overrides->data = pcre2_match_data_create(1, NULL);
    overrides->context = pcre2_match_context_create(NULL);
    if (overrides->data == NULL || overrides->context == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for overrides");
        goto done;
    }
    pcre2_set_match_limit(overrides->context, MATCH_LIMIT);
    pcre2_set_heap_limit(overrides->context, HEAP_LIMIT_KIB);
    for (int64_t i = 0; i < overrides->count; i++)
        if ((status = compile(overrides, i, error)) != STATUS_OK) goto done;
    *out = overrides;
    overrides = NULL;
done:
    overrides_free(overrides);
    return status;
}

void overrides_free(struct overrides *overrides)
{
    if (overrides == NULL) return;
    for (int64_t i = 0; i < overrides->count && overrides->codes != NULL; i++) pcre2_code_free(overrides->codes[i]);
    pcre2_match_data_free(overrides->data);
    pcre2_match_context_free(overrides->context);
    memory_free(overrides->codes);
    memory_free(overrides);
}

/* Bytes of the name of a weight's module. */
static size_t module_length(const char *name)
{
    static const char ending[] = ".weight";
    const size_t whole = strlen(name), tail = sizeof ending - 1;
    return whole > tail && strcmp(name + whole - tail, ending) == 0 ? whole - tail : whole;
}

/* Whether override `index` matches the module of the weight `name`. */
static enum status matches(const struct overrides *overrides, int64_t index, const char *name, bool *out,
                           struct error *error)
{
    const size_t length = module_length(name);
    char pointer[64];
    const int found =
        pcre2_match(overrides->codes[index], (PCRE2_SPTR)name, length, 0, 0, overrides->data, overrides->context);
    *out = found >= 0;
    if (found >= 0 || found == PCRE2_ERROR_NOMATCH) return STATUS_OK;
    (void)snprintf(pointer, sizeof pointer, "/overrides/%" PRId64 "/pattern", index);
    return error_set_at(error, STATUS_INVALID, pointer, "gives up on \"%s\" (PCRE2 error %d); write a simpler one",
                        name, found);
}

enum status overrides_find(const struct overrides *overrides, const char *name, int64_t *index, struct error *error)
{
    for (*index = 0; *index < overrides->count; (*index)++) {
        bool found = false;
        const enum status status = matches(overrides, *index, name, &found, error);
        if (status != STATUS_OK || found) return status;
    }
    *index = OVERRIDES_NONE;
    return STATUS_OK;
}

/* Whether override `index` matches a linear of the program; *some becomes the name of one. */
static enum status matches_program(const struct overrides *overrides, int64_t index, const struct program *program,
                                   const char **some, bool *out, struct error *error)
{
    for (int i = 0; i < program->parameter_count && !*out; i++) {
        if (!program->parameters[i].linear) continue;
        *some = program->parameters[i].name;
        const enum status status = matches(overrides, index, *some, out, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

enum status overrides_check(const struct overrides *overrides, const struct program *programs, int64_t layers,
                            struct error *error)
{
    for (int64_t index = 0; index < overrides->count; index++) {
        const char *some = "";
        char pointer[64];
        bool found = false;
        for (int64_t block = 0; block < layers && !found; block++) {
            const enum status status = matches_program(overrides, index, &programs[block], &some, &found, error);
            if (status != STATUS_OK) return status;
        }
        if (found) continue;
        (void)snprintf(pointer, sizeof pointer, "/overrides/%" PRId64 "/pattern", index);
        return error_set_at(error, STATUS_INVALID, pointer,
                            "the pattern \"%.100s\" matches no linear of the model; one is named \"%.*s\"",
                            overrides->method->options.overrides[index].pattern, (int)module_length(some), some);
    }
    return STATUS_OK;
}

static void set_field(struct quantize_method *method, const char *name, int64_t value)
{
    const struct param *param = param_of(method, name);
    if (value != 0 && param != NULL) memcpy((char *)method + param->offset, &value, sizeof value);
}

bool overrides_apply(const struct overrides *overrides, int64_t index, struct quantize_method *out)
{
    *out = *overrides->method;
    if (index == OVERRIDES_NONE) return false;
    const struct quantize_override *item = &overrides->method->options.overrides[index];
    set_field(out, "bits", item->bits);
    set_field(out, "group_size", item->group_size);
    return item->skip;
}
