/* reference.h: a model of the reference set in memory, with its tokens and what is known of its Hessian. */
#ifndef CURVATURE_REFERENCE_H
#define CURVATURE_REFERENCE_H

#include "base/memory.h"
#include "curvature/hvp.h"
#include "files/json_reader.h"
#include "shared.h"

#include <math.h>
#include <string.h>

struct reference {
    char directory[512], file[600];
    struct team *team;
    struct backend *backend;
    struct model *model;
    struct parameters_layout *layout;
    struct parameters parameters;
    struct sequences sequences; /* owned */
    struct chunks chunks;
    double loss, gradient_norm, max_magnitude, max_algebraic, min_algebraic, trace, frobenius; /* NAN: not known */
};

static inline void reference_ok(enum status status, const struct error *error)
{
    if (status != STATUS_OK) fail_msg("%s", error->detail);
}

static inline void reference_numbers(struct reference *r)
{
    char path[600], *text = NULL;
    size_t size = 0;
    struct error error;
    struct json_reader reader;
    struct json_reader_text key;
    const struct {
        const char *name;
        double *out;
    } top[] = {{"loss", &r->loss}, {"grad_norm", &r->gradient_norm}}, inner[] = {{"max_magnitude", &r->max_magnitude},
                                                                                 {"max_algebraic", &r->max_algebraic},
                                                                                 {"min_algebraic", &r->min_algebraic},
                                                                                 {"trace", &r->trace},
                                                                                 {"frobenius", &r->frobenius}};
    (void)snprintf(path, sizeof path, "%s/reference.json", r->directory);
    reference_ok(file_read_all(AT_FDCWD, path, 1 << 24, &text, &size, &error), &error);
    for (int i = 0; i < 2; i++) *top[i].out = NAN;
    for (int i = 0; i < 5; i++) *inner[i].out = NAN;
    json_reader_init(&reader, "reference.json", text, size, NULL, &error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        for (int i = 0; i < 2; i++)
            if (json_reader_is(key, top[i].name)) json_reader_double(&reader, top[i].out);
        if (!json_reader_is(key, "hessian")) continue;
        json_reader_object(&reader);
        while (json_reader_next_key(&reader, &key))
            for (int i = 0; i < 5; i++)
                if (json_reader_is(key, inner[i].name)) json_reader_double(&reader, inner[i].out);
    }
    reference_ok(json_reader_finish(&reader), &error);
    memory_free(text);
}

static inline void reference_sequences(struct reference *r)
{
    struct error error;
    struct safetensors *opened = NULL;
    struct safetensors_tensor info;
    int64_t tokens = 0, *ids = shared_tensor(r->file, "tokens", &tokens);
    reference_ok(safetensors_open(AT_FDCWD, r->file, &opened, &error), &error);
    safetensors_tensor(opened, safetensors_find(opened, "tokens"), &info);
    const int64_t rows = info.shape[0], columns = info.shape[1];
    safetensors_close(opened);
    r->sequences =
        (struct sequences){rows, calloc((size_t)rows + 1, sizeof(int64_t)), calloc((size_t)tokens, sizeof(uint32_t))};
    for (int64_t i = 0; i <= rows; i++) r->sequences.starts[i] = i * columns;
    for (int64_t i = 0; i < tokens; i++) r->sequences.tokens[i] = (uint32_t)ids[i];
    free(ids);
}

/* `relative` to the shared data; chunks of at most `tokens` tokens. On the cpu backend, or in double. */
static inline void reference_open(struct reference *r, const char *relative, bool use_double, int64_t tokens)
{
    struct error error;
    *r = (struct reference){0};
    shared_require(relative, r->directory, sizeof r->directory);
    (void)snprintf(r->file, sizeof r->file, "%s/reference.safetensors", r->directory);
    reference_numbers(r);
    reference_sequences(r);
    reference_ok(team_new(2, &r->team, &error), &error);
    reference_ok(use_double ? backend_reference_new(true, r->team, &r->backend, &error)
                            : backend_cpu_new(r->team, &r->backend, &error),
                 &error);
    reference_ok(model_open(r->directory, &r->model, &error), &error);
    reference_ok(parameters_layout_new(&r->model->config, &r->layout, &error), &error);
    reference_ok(parameters_init(&r->parameters, r->layout, r->backend, "parameters", &error), &error);
    reference_ok(parameters_read(&r->parameters, r->model, &error), &error);
    reference_ok(chunks_init(&r->sequences, tokens, &r->chunks, &error), &error);
}

static inline void reference_close(struct reference *r)
{
    free(r->sequences.starts);
    free(r->sequences.tokens);
    chunks_reset(&r->chunks);
    parameters_reset(&r->parameters);
    parameters_layout_free(r->layout);
    model_close(r->model);
    backend_free(r->backend);
    team_free(r->team);
}

/* The tensors PREFIX.NAME of the reference as one flat array in the layout; the caller frees it. */
static inline double *reference_flat(const struct reference *r, const char *prefix, bool wide)
{
    double *flat = calloc((size_t)r->layout->elements, sizeof *flat);
    for (int64_t i = 0; i < r->layout->tensor_count; i++) {
        const struct parameter *parameter = &r->layout->tensors[i].parameter;
        char name[PARAMETER_NAME + 32];
        int64_t count = 0;
        if (parameter->constant) continue;
        (void)snprintf(name, sizeof name, "%s.%s", prefix, r->layout->tensors[i].parameter.name);
        void *values = shared_tensor(r->file, name, &count);
        assert_int_equal(count, r->layout->tensors[i].parameter.rows * r->layout->tensors[i].parameter.columns);
        for (int64_t k = 0; k < count; k++) {
            const int64_t row = k / parameter->columns, column = k % parameter->columns;
            const int64_t from = parameter->transposed ? column * parameter->rows + row : k;
            flat[r->layout->tensors[i].offset + k] = wide ? ((double *)values)[from] : (double)((float *)values)[from];
        }
        free(values);
    }
    return flat;
}

#endif
