#include "model/state_space.h"

#include "model/architecture.h"

#include <math.h>
#include <string.h>

void state_space_rank_read(struct json_reader *reader, struct state_space_raw *raw)
{
    char text[8];
    if (json_reader_null(reader)) return;
    if (json_reader_peek(reader) != JSON_READER_STRING) {
        json_reader_int64(reader, 1, INT32_MAX, &raw->time_step_rank);
        return;
    }
    if (json_reader_string_copy(reader, text, sizeof text) && strcmp(text, "auto") != 0)
        json_reader_fail(reader, STATUS_INVALID, "time_step_rank is \"%s\"; it must be a number or \"auto\"", text);
}

/* Transformers 5 writes an infinite number as {"__float__": "Infinity"}; before, it was the literal. */
static void limit_read(struct json_reader *reader, double *out)
{
    struct json_reader_text key;
    char text[16] = "";
    if (json_reader_peek(reader) != JSON_READER_OBJECT) {
        json_reader_double(reader, out);
        return;
    }
    json_reader_object(reader);
    while (json_reader_next_key(reader, &key))
        if (json_reader_is(key, "__float__")) json_reader_string_copy(reader, text, sizeof text);
    if (strcmp(text, "Infinity") == 0)
        *out = INFINITY;
    else
        json_reader_fail(reader, STATUS_INVALID, "an object that is no infinite number");
}

void state_space_limit_read(struct json_reader *reader, struct state_space_raw *raw)
{
    double *const limits[] = {&raw->step_least, &raw->step_most};
    int count = 0;
    if (json_reader_null(reader)) return;
    json_reader_array(reader);
    while (count < 2 && json_reader_next_item(reader)) limit_read(reader, limits[count++]);
    if (count < 2 || json_reader_next_item(reader))
        json_reader_fail(reader, STATUS_INVALID, "time_step_limit must be two numbers");
}

static int64_t given(int64_t value, int64_t fallback)
{
    return value >= 0 ? value : fallback;
}

static double number(double value, double fallback)
{
    return isnan(value) ? fallback : value;
}

static struct state_space_config settings_of(const struct state_space_raw *raw, const struct model_config *model,
                                             int64_t width)
{
    const bool heads = model->architecture->block == BLOCK_MAMBA2;
    return (struct state_space_config){
        .width = width,
        .heads = heads ? given(raw->num_heads, 128) : width,
        .groups = heads ? given(raw->n_groups, 8) : 1,
        .states = given(raw->state_size, heads ? 128 : 16),
        .kernel = given(raw->conv_kernel, 4),
        .rank = heads ? 0 : given(raw->time_step_rank, (model->hidden_size + 15) / 16),
        .bias = given(raw->use_bias, 0),
        .kernel_bias = given(raw->use_conv_bias, 1),
        .step_least = heads ? number(raw->step_least, 0) : 0,
        .step_most = heads ? number(raw->step_most, INFINITY) : INFINITY,
    };
}

static bool heads_fit(const struct state_space_config *s, int64_t head_dim)
{
    if (s->heads < 1 || s->groups < 1 || s->heads % s->groups != 0 || s->width % s->heads != 0) return false;
    return head_dim < 0 || head_dim * s->heads == s->width;
}

static enum status settings_check(const char *name, const struct state_space_config *s, bool heads, int64_t head_dim,
                                  struct error *error)
{
    if (s->states < 1 || s->states > SCAN_STATES || s->kernel < 1 || s->kernel > CONVOLUTION_TAPS)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: state_size %lld or conv_kernel %lld is not in [1, %d] and [1, %d]", name,
                         (long long)s->states, (long long)s->kernel, SCAN_STATES, CONVOLUTION_TAPS);
    if (heads && !heads_fit(s, head_dim))
        return error_set(error, STATUS_INVALID,
                         "%s: %lld channels, num_heads %lld, head_dim %lld and n_groups %lld do not fit together", name,
                         (long long)s->width, (long long)s->heads, (long long)head_dim, (long long)s->groups);
    if (!(s->step_least >= 0 && s->step_least <= s->step_most))
        return error_set(error, STATUS_INVALID, "%s: time_step_limit [%g, %g] is empty or below zero", name,
                         s->step_least, s->step_most);
    if (!heads && s->rank < 1) return error_set(error, STATUS_INVALID, "%s: time_step_rank is not positive", name);
    return STATUS_OK;
}

enum status state_space_complete(const char *name, const struct state_space_raw *raw, struct model_config *out,
                                 struct error *error)
{
    const double expand = number(raw->expand, 2);
    if (out->hidden_size < 1) return STATUS_OK; /* the caller refuses */
    if (!(expand > 0 && expand <= 64))
        return error_set(error, STATUS_INVALID, "%s: expand is %g; it must be in (0, 64]", name, expand);
    const int64_t width = (int64_t)(expand * (double)out->hidden_size);
    out->state_space = settings_of(raw, out, width);
    if (out->maximum_positions < 0) out->maximum_positions = INT32_MAX;
    if (out->intermediate_size >= 0 && out->intermediate_size != width)
        return error_set(error, STATUS_INVALID, "%s: intermediate_size %lld is not expand times hidden_size, %lld",
                         name, (long long)out->intermediate_size, (long long)width);
    out->intermediate_size = width;
    out->heads = out->kv_heads = out->head_dim = 0;
    return settings_check(name, &out->state_space, out->architecture->block == BLOCK_MAMBA2, raw->head_dim, error);
}
