#include "model/loader.h"

#include "base/integer.h"
#include "base/memory.h"

#include <pthread.h>
#include <string.h>

/* Most threads that read a device's weights, of those that the caller was given: half of them and one. A block should
 * be there before the device is done with the one before. */
enum { READERS = 8 };

/* Two blocks, A and B. The thread reads layer i into block i % 2 as soon as the caller has asked for layer i - 1 and
 * that is read, because the caller is then done with layer i - 2. `filled` and `wanted` count layers and never fall.
 *
 * A device gets tensors of bf16 and f16 as they are stored: half the bytes for the readers and for the bus. Their
 * floats are made when the block is lent, in memory that all blocks share, because one block is in use at a time. So a
 * loader takes two blocks of the device, whatever the dtype: as floats, or twice as stored and once as floats. */
struct loader {
    const struct model *model;
    struct backend *backend;
    struct block blocks[2];
    void *memory[2];
    void *widened;  /* floats of the block in use that are stored in 16 bits; NULL: there are none */
    float *staging; /* for tensors that cannot be read directly to their place */
    struct {        /* asynchronous copies: staging for two tensors in turns */
        void *memory[2];
        int points[2]; /* after which each is free again */
        int turn, used;
        int arrived[2];                                /* points after which the blocks are complete */
        struct matrix matrices[2][PROGRAM_PARAMETERS]; /* the blocks as they arrive */
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

/* How a tensor comes to a device. */
static enum dtype carried_dtype(const struct model *model, const struct backend *backend,
                                const struct parameter *parameter)
{
    return backend->ops->lanes != NULL ? model_stored_dtype(model, parameter) : DTYPE_F32;
}

static bool is_widened(enum dtype dtype)
{
    return dtype != DTYPE_F32;
}

static size_t carried_element(enum dtype dtype)
{
    return dtype_info(dtype)->bits / 8;
}

static enum status carry(struct loader *loader, const struct parameter *parameter, struct matrix to,
                         struct error *error)
{
    const struct lane_ops *lanes = lanes_of(loader);
    const int which = loader->carried.turn;
    void *memory = loader->carried.memory[which];
    enum status status = STATUS_OK;
    if (loader->carried.used == 2)
        status = lanes->arrive(loader->backend, LANE_WEIGHTS, loader->carried.points[which], error);
    if (status == STATUS_OK) status = model_read_stored(loader->model, parameter, memory, loader->readers, error);
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

/* The next matrix of memory that is filled from *at on. */
static struct matrix place(char **at, const struct parameter *parameter, size_t element)
{
    const struct matrix m = matrix_of(*at, parameter->rows, parameter->columns, element);
    *at += (size_t)padded(m.rows * m.columns) * element;
    return m;
}

static enum status layer_read(struct loader *loader, int64_t layer, struct error *error)
{
    struct block *block = &loader->blocks[layer % 2];
    const struct program *program = &loader->model->programs[layer];
    const size_t element = loader->backend->ops->element;
    char *at = loader->memory[layer % 2], *floats = loader->widened;
    block->layer = layer;
    block->program = program;
    for (int i = 0; i < program->parameter_count; i++) {
        const struct parameter *parameter = &program->parameters[i];
        const enum dtype dtype = carried_dtype(loader->model, loader->backend, parameter);
        struct matrix *to = &loader->carried.matrices[layer % 2][i];
        *to = place(&at, parameter, is_widened(dtype) ? carried_element(dtype) : element);
        block->parameters[i] = is_widened(dtype) ? place(&floats, parameter, element) : *to;
        const enum status status = tensor_read(loader, parameter, *to, error);
        if (status != STATUS_OK) return status;
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

/* What the largest block or tensor takes, each by itself; tensors of a block are padded. */
struct sizes {
    int64_t memory, widened;    /* bytes of a block as it is read or carried; elements of those that are then widened */
    int64_t tensor, transposed; /* elements of a tensor; of one that is stored transposed */
    int64_t carried;            /* bytes of a tensor as it is carried */
};

static void add_parameter(const struct model *model, const struct backend *backend, const struct parameter *parameter,
                          struct sizes *block, struct sizes *sizes)
{
    const int64_t count = parameter->rows * parameter->columns;
    const enum dtype dtype = carried_dtype(model, backend, parameter);
    block->memory += padded(count) * (int64_t)(is_widened(dtype) ? carried_element(dtype) : backend->ops->element);
    block->widened += is_widened(dtype) ? padded(count) : 0;
    sizes->tensor = larger(sizes->tensor, count);
    sizes->transposed = larger(sizes->transposed, parameter->transposed ? count : 0);
    sizes->carried = larger(sizes->carried, count * (int64_t)carried_element(dtype));
}

static struct sizes sizes_of(const struct model *model, const struct backend *backend)
{
    struct sizes sizes = {.memory = 0};
    for (int64_t layer = 0; layer < model->config.layers; layer++) {
        struct sizes block = {.memory = 0};
        for (int i = 0; i < model->programs[layer].parameter_count; i++)
            add_parameter(model, backend, &model->programs[layer].parameters[i], &block, &sizes);
        sizes.memory = larger(sizes.memory, block.memory);
        sizes.widened = larger(sizes.widened, block.widened);
    }
    return sizes;
}

/* Whether tensors pass through host memory that is not the backend's, one at a time. */
static bool is_staged(const struct backend *backend, const struct sizes *sizes)
{
    return !backend->ops->host || backend->ops->element != sizeof(float) || sizes->transposed > 0;
}

static enum status staging_new(struct loader *loader, const struct sizes *sizes, struct error *error)
{
    const struct lane_ops *lanes = lanes_of(loader);
    enum status status = STATUS_OK;
    if (lanes == NULL && is_staged(loader->backend, sizes))
        return memory_new(sizes->tensor, sizeof(float), "weight staging", &loader->staging, error);
    if (lanes != NULL)
        status = team_new((int)smaller(1 + team_size(loader->backend->team) / 2, READERS), &loader->readers, error);
    for (int i = 0; lanes != NULL && i < 2 && status == STATUS_OK; i++)
        status = lanes->allocate(loader->backend, (size_t)sizes->carried, "weight staging", &loader->carried.memory[i],
                                 error);
    if (lanes != NULL)
        lanes->follow(loader->backend, LANE_WEIGHTS); /* after the last use of the blocks' memory, and its clearing */
    return status;
}

static enum status blocks_new(struct loader *loader, const struct sizes *sizes, struct error *error)
{
    struct backend *backend = loader->backend;
    const int64_t elements = backend_elements(backend, sizes->memory);
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        status = backend->ops->allocate(backend, elements, "block weights", &loader->memory[i], error);
    if (status == STATUS_OK && sizes->widened > 0)
        status = backend->ops->allocate(backend, sizes->widened, "block weights", &loader->widened, error);
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
    const struct sizes sizes = sizes_of(model, backend);
    enum status status = memory_new(1, sizeof *loader, "loader", &loader, error);
    *out = NULL;
    if (status != STATUS_OK) return status;
    loader->model = model;
    loader->backend = backend;
    loader->filled = loader->given = first;
    loader->wanted = first + 1;
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->changed, NULL);
    if ((status = blocks_new(loader, &sizes, error)) != STATUS_OK) goto done;
    if ((status = staging_new(loader, &sizes, error)) != STATUS_OK) goto done;
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

/* Lends the block to work that is asked for from now on. */
static struct block *lend(struct loader *loader, int64_t which)
{
    const struct lane_ops *lanes = lanes_of(loader);
    struct block *block = &loader->blocks[which];
    if (lanes == NULL) return block;
    lanes->await(loader->backend, LANE_WEIGHTS, loader->carried.arrived[which]);
    for (int i = 0; i < block->program->parameter_count; i++) {
        const enum dtype dtype = model_stored_dtype(loader->model, &block->program->parameters[i]);
        if (is_widened(dtype))
            lanes->widen(loader->backend, block->parameters[i], loader->carried.matrices[which][i], dtype);
    }
    return block;
}

/* Lets the thread read the layer after the one that is lent next; its copies begin after all work so far: that on the
 * block that they overwrite, and its widening. The layer that is lent next has been read by now. If it were not, its
 * copies that come after `follow` would wait for the work on the layer before, where they need only that on the layer
 * before that, and the thread would wait with them: it would not read while the device computes. */
static void allow_next(struct loader *loader)
{
    if (lanes_of(loader) != NULL) lanes_of(loader)->follow(loader->backend, LANE_WEIGHTS);
    pthread_mutex_lock(&loader->mutex);
    loader->wanted = loader->given + 2;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->mutex);
}

enum status loader_next(struct loader *loader, struct block **out, struct error *error)
{
    enum status status = STATUS_OK;
    *out = NULL;
    if (loader->given >= loader->model->config.layers) return error_set(error, STATUS_NOT_FOUND, "no more blocks");
    pthread_mutex_lock(&loader->mutex);
    while (loader->filled <= loader->given && loader->status == STATUS_OK)
        pthread_cond_wait(&loader->changed, &loader->mutex);
    if (loader->filled <= loader->given) {
        status = loader->status;
        *error = loader->error;
    }
    pthread_mutex_unlock(&loader->mutex);
    if (status != STATUS_OK) return status;
    allow_next(loader);
    *out = lend(loader, loader->given++ % 2);
    return STATUS_OK;
}

int64_t loader_elements(const struct model *model)
{
    int64_t most = 0;
    for (int64_t layer = 0; layer < model->config.layers; layer++) {
        int64_t total = 0;
        for (int i = 0; i < model->programs[layer].parameter_count; i++)
            total += padded(model->programs[layer].parameters[i].rows * model->programs[layer].parameters[i].columns);
        most = larger(most, total);
    }
    return most;
}

int64_t loader_bytes(const struct model *model, const struct backend *backend)
{
    const struct sizes sizes = sizes_of(model, backend);
    return 2 * sizes.memory + sizes.widened * (int64_t)backend->ops->element;
}

int64_t loader_staging_bytes(const struct model *model, const struct backend *backend)
{
    const struct sizes sizes = sizes_of(model, backend);
    const int64_t element = (int64_t)sizeof(float);
    if (backend->ops->lanes != NULL) return 2 * sizes.carried + sizes.transposed * element;
    return is_staged(backend, &sizes) ? sizes.tensor * element : 0;
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
    if (loader->widened != NULL) loader->backend->ops->release(loader->backend, loader->widened);
    memory_free(loader->staging);
    team_free(loader->readers);
    pthread_cond_destroy(&loader->changed);
    pthread_mutex_destroy(&loader->mutex);
    memory_free(loader);
}
