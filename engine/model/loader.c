#include "model/loader.h"

#include "base/integer.h"
#include "base/memory.h"

#include <pthread.h>
#include <string.h>

/* Most threads that read a device's weights, of those that the caller was given: half of them and one. One makes 1 GB/s
 * of the floats of bf16 (measured on a H200's host), and a block should be there before the device is done with the
 * one before. */
enum { READERS = 8 };

/* Two blocks, A and B. The thread reads layer i into block i % 2 as soon as the caller has asked for layer i - 1,
 * because the caller is then done with layer i - 2. `filled` and `wanted` count layers and never fall. */
struct loader {
    const struct model *model;
    struct backend *backend;
    struct block blocks[2];
    void *memory[2];
    float *staging; /* for tensors that cannot be read directly to their place */
    struct {        /* asynchronous copies: staging for two tensors in turns */
        float *memory[2];
        int points[2]; /* after which each is free again */
        int turn, used;
        int arrived[2]; /* points after which the blocks are complete */
    } carried;
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct team *readers; /* the thread's own, for a device; NULL: it reads alone */
    int64_t filled;       /* layers read */
    int64_t wanted;       /* layers the thread may read */
    int64_t given;        /* layers lent */
    bool stop;
    enum status status; /* the thread's */
    struct error error;
};

/* The distance from a tensor to the next one: whole cache lines of floats. */
static int64_t padded(int64_t elements)
{
    return (elements + 15) & ~(int64_t)15;
}

static const struct lane_ops *lanes_of(const struct loader *loader)
{
    return loader->backend->ops->lanes;
}

static enum status carry(struct loader *loader, const struct parameter *parameter, struct matrix to,
                         struct error *error)
{
    const struct lane_ops *lanes = lanes_of(loader);
    const int which = loader->carried.turn;
    float *memory = loader->carried.memory[which];
    enum status status = STATUS_OK;
    if (loader->carried.used == 2)
        status = lanes->arrive(loader->backend, LANE_WEIGHTS, loader->carried.points[which], error);
    if (status == STATUS_OK) status = model_read_dense(loader->model, parameter, memory, NULL, loader->readers, error);
    if (status != STATUS_OK) return status;
    lanes->carry_in(loader->backend, LANE_WEIGHTS, to, memory);
    loader->carried.points[which] = lanes->point(loader->backend, LANE_WEIGHTS);
    loader->carried.turn = !which;
    if (loader->carried.used < 2) loader->carried.used++;
    return STATUS_OK;
}

static enum status tensor_read(struct loader *loader, const struct parameter *parameter, struct matrix to,
                               struct error *error)
{
    if (lanes_of(loader) != NULL) return carry(loader, parameter, to, error);
    return model_read(loader->model, loader->backend, parameter, to, loader->staging, error);
}

static enum status layer_read(struct loader *loader, int64_t layer, struct error *error)
{
    struct block *block = &loader->blocks[layer % 2];
    const struct program *program = &loader->model->programs[layer];
    char *at = loader->memory[layer % 2];
    block->layer = layer;
    block->program = program;
    for (int i = 0; i < program->parameter_count; i++) {
        const struct parameter *parameter = &program->parameters[i];
        const size_t element = loader->backend->ops->element;
        block->parameters[i] = matrix_of(at, parameter->rows, parameter->columns, element);
        const enum status status = tensor_read(loader, parameter, block->parameters[i], error);
        if (status != STATUS_OK) return status;
        at += (size_t)padded(parameter->rows * parameter->columns) * element;
    }
    if (lanes_of(loader) != NULL)
        loader->carried.arrived[layer % 2] = lanes_of(loader)->point(loader->backend, LANE_WEIGHTS);
    return STATUS_OK;
}

static void *loader_main(void *argument)
{
    struct loader *loader = argument;
    pthread_mutex_lock(&loader->mutex);
    while (loader->filled < loader->model->config.layers) {
        while (!loader->stop && loader->filled >= loader->wanted) pthread_cond_wait(&loader->changed, &loader->mutex);
        if (loader->stop) break;
        const int64_t layer = loader->filled;
        struct error error;
        pthread_mutex_unlock(&loader->mutex);
        const enum status status = layer_read(loader, layer, &error);
        pthread_mutex_lock(&loader->mutex);
        if (status != STATUS_OK) {
            loader->status = status;
            loader->error = error;
            pthread_cond_broadcast(&loader->changed);
            break;
        }
        loader->filled++;
        pthread_cond_broadcast(&loader->changed);
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

/* Elements of the largest block, each tensor padded to 64 bytes of floats, and of the largest tensor; whether any has
 * to be transposed. */
static void sizes(const struct model *model, int64_t *block, int64_t *tensor, bool *transposed)
{
    *block = *tensor = 0;
    *transposed = false;
    for (int64_t layer = 0; layer < model->config.layers; layer++) {
        int64_t total = 0;
        for (int i = 0; i < model->programs[layer].parameter_count; i++) {
            const struct parameter *parameter = &model->programs[layer].parameters[i];
            const int64_t count = parameter->rows * parameter->columns;
            total += padded(count);
            if (count > *tensor) *tensor = count;
            *transposed = *transposed || model->programs[layer].parameters[i].transposed;
        }
        if (total > *block) *block = total;
    }
}

/* The number of tensors that pass through host memory at a time. */
static int64_t staged(const struct backend *backend, bool transposed)
{
    if (backend->ops->lanes != NULL) return 2 + transposed;
    return !backend->ops->host || backend->ops->element != sizeof(float) || transposed;
}

static enum status staging_new(struct loader *loader, int64_t tensor, bool transposed, struct error *error)
{
    const struct lane_ops *lanes = lanes_of(loader);
    enum status status = STATUS_OK;
    if (lanes == NULL && staged(loader->backend, transposed) > 0)
        return memory_new(tensor, sizeof(float), "weight staging", &loader->staging, error);
    if (lanes != NULL)
        status = team_new((int)smaller(1 + team_size(loader->backend->team) / 2, READERS), &loader->readers, error);
    for (int i = 0; lanes != NULL && i < 2 && status == STATUS_OK; i++) {
        void *memory = NULL;
        status = lanes->allocate(loader->backend, (size_t)tensor * sizeof(float), "weight staging", &memory, error);
        loader->carried.memory[i] = memory;
    }
    if (lanes != NULL)
        lanes->follow(loader->backend, LANE_WEIGHTS); /* after the last use of the blocks' memory, and its clearing */
    return status;
}

enum status loader_open(const struct model *model, struct backend *backend, struct loader **out, struct error *error)
{
    return loader_open_at(model, backend, 0, out, error);
}

enum status loader_open_at(const struct model *model, struct backend *backend, int64_t first, struct loader **out,
                           struct error *error)
{
    struct loader *loader = NULL;
    int64_t block = 0, tensor = 0;
    bool transposed = false;
    enum status status = memory_new(1, sizeof *loader, "loader", &loader, error);
    *out = NULL;
    if (status != STATUS_OK) return status;
    loader->model = model;
    loader->backend = backend;
    loader->filled = loader->given = first;
    loader->wanted = first + 1;
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->changed, NULL);
    sizes(model, &block, &tensor, &transposed);
    for (int i = 0; i < 2; i++)
        if ((status = backend->ops->allocate(backend, block, "block weights", &loader->memory[i], error)) != STATUS_OK)
            goto done;
    if ((status = staging_new(loader, tensor, transposed, error)) != STATUS_OK) goto done;
    if (pthread_create(&loader->thread, NULL, loader_main, loader) != 0) {
        status = error_set(error, STATUS_NO_MEMORY, "cannot start the thread that reads weights");
        goto done;
    }
    loader->started = true;
    *out = loader;
    loader = NULL;
done:
    loader_close(loader);
    return status;
}

enum status loader_next(struct loader *loader, struct block **out, struct error *error)
{
    enum status status = STATUS_OK;
    *out = NULL;
    if (loader->given >= loader->model->config.layers) return error_set(error, STATUS_NOT_FOUND, "no more blocks");
    if (lanes_of(loader) != NULL)
        lanes_of(loader)->follow(loader->backend, LANE_WEIGHTS); /* after the work on the block that is overwritten */
    pthread_mutex_lock(&loader->mutex);
    loader->wanted = loader->given + 2;
    pthread_cond_broadcast(&loader->changed);
    while (loader->filled <= loader->given && loader->status == STATUS_OK)
        pthread_cond_wait(&loader->changed, &loader->mutex);
    if (loader->filled <= loader->given) {
        status = loader->status;
        *error = loader->error;
    }
    pthread_mutex_unlock(&loader->mutex);
    if (status != STATUS_OK) return status;
    const int64_t which = loader->given++ % 2;
    if (lanes_of(loader) != NULL)
        lanes_of(loader)->await(loader->backend, LANE_WEIGHTS, loader->carried.arrived[which]);
    *out = &loader->blocks[which];
    return STATUS_OK;
}

int64_t loader_elements(const struct model *model)
{
    int64_t block, tensor;
    bool transposed;
    sizes(model, &block, &tensor, &transposed);
    return block;
}

int64_t loader_bytes(const struct model *model, const struct backend *backend)
{
    return 2 * loader_elements(model) * (int64_t)backend->ops->element;
}

int64_t loader_staging_bytes(const struct model *model, const struct backend *backend)
{
    int64_t block, tensor;
    bool transposed;
    sizes(model, &block, &tensor, &transposed);
    return staged(backend, transposed) * tensor * (int64_t)sizeof(float);
}

void loader_copy(struct backend *backend, const struct block *from, void *memory, struct block *to)
{
    char *at = memory;
    to->layer = from->layer;
    to->program = from->program;
    for (int i = 0; i < from->program->parameter_count; i++) {
        const struct matrix original = from->parameters[i];
        to->parameters[i] = matrix_of(at, original.rows, original.columns, original.element);
        backend->ops->add(backend, to->parameters[i], original, 1, 0);
        at += (size_t)padded(original.rows * original.columns) * original.element;
    }
}

/* Waits for all copies before the memory is released. */
static void carried_reset(struct loader *loader)
{
    const struct lane_ops *lanes = lanes_of(loader);
    for (int i = 0; lanes != NULL && i < 2; i++) {
        if (i < loader->carried.used) lane_finish(lanes, loader->backend, LANE_WEIGHTS, loader->carried.points[i]);
        lanes->release(loader->backend, loader->carried.memory[i]);
    }
}

void loader_close(struct loader *loader)
{
    if (loader == NULL) return;
    if (loader->started) {
        pthread_mutex_lock(&loader->mutex);
        loader->stop = true;
        pthread_cond_broadcast(&loader->changed);
        pthread_mutex_unlock(&loader->mutex);
        pthread_join(loader->thread, NULL);
    }
    carried_reset(loader);
    for (int i = 0; i < 2; i++)
        if (loader->memory[i] != NULL) loader->backend->ops->release(loader->backend, loader->memory[i]);
    memory_free(loader->staging);
    team_free(loader->readers);
    pthread_cond_destroy(&loader->changed);
    pthread_mutex_destroy(&loader->mutex);
    memory_free(loader);
}
