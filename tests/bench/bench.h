/* bench.h: what the measurement programs share: a clock, random sequences, the FLOPs of a forward pass, one line of
 * JSON a run. */
#ifndef BENCH_H
#define BENCH_H

#include "base/random.h"
#include "dataset/dataset.h"
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static inline double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline double bench_peak_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

/* `count` sequences of `length` random tokens; the process keeps them. */
static inline struct sequences bench_sequences(int64_t count, int64_t length, int64_t vocabulary, uint64_t seed)
{
    struct sequences sequences = {count, calloc((size_t)count + 1, sizeof(int64_t)),
                                  calloc((size_t)(count * length), sizeof(uint32_t))};
    for (int64_t i = 0; i <= count; i++) sequences.starts[i] = i * length;
    for (int64_t i = 0; i < count * length; i++)
        sequences.tokens[i] = (uint32_t)random_below(seed, 0, (uint64_t)i, (uint64_t)vocabulary);
    return sequences;
}

/* Of the blocks, for `tokens` tokens in sequences of `length`: multiply-adds count two; a query sees (length + 1) / 2
 * keys. */
static inline double bench_block_flop(const struct model *model, double tokens, double length)
{
    const struct model_config *c = &model->config;
    double weights = 0;
    for (int64_t layer = 0; layer < c->layers; layer++)
        for (int i = 0; i < model->programs[layer].parameter_count; i++) {
            const struct parameter *p = &model->programs[layer].parameters[i];
            if (p->linear) weights += (double)(p->rows * p->columns);
        }
    return tokens * (2 * weights + 2 * (length + 1) * (double)(c->heads * c->head_dim * c->layers));
}

static inline double bench_logits_flop(const struct model *model, double tokens)
{
    return 2 * tokens * (double)(model->config.vocabulary_size * model->config.hidden_size);
}

struct bench {
    struct team *team;
    struct backend *backend;
    struct model *model;
    char description[256];
};

/* The device that is measured: DELTAQ_BENCH_DEVICE, such as cuda:0; the CPU. */
static inline const char *bench_device(void)
{
    const char *device = getenv("DELTAQ_BENCH_DEVICE");
    return device != NULL ? device : "cpu";
}

/* How products are made: DELTAQ_BENCH_PRODUCTS, f32 or bf16; NULL: f32. */
static inline const char *bench_products(void)
{
    return getenv("DELTAQ_BENCH_PRODUCTS");
}

/* Products are as bench_products says. Exits with a message when something is missing: these are programs
 * for people. */
static inline struct bench bench_open(const char *path)
{
    struct bench bench = {0};
    struct error error = {0};
    if (team_new(0, &bench.team, &error) != STATUS_OK ||
        backend_new(bench_device(), bench_products(), bench.team, &bench.backend, &error) != STATUS_OK ||
        model_open(path, &bench.model, &error) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", error.detail);
        exit(1);
    }
    backend_describe(bench.backend, bench.description, sizeof bench.description);
    return bench;
}

static inline void bench_close(struct bench *bench)
{
    model_close(bench->model);
    backend_free(bench->backend);
    team_free(bench->team);
}

#endif
