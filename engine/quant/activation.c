#include "quant/activation.h"

/* exact: the factors are codes, whose products must not be rounded. */
static void multiply(const struct activations *activations, struct matrix x, struct matrix weight, struct matrix y,
                     double beta)
{
    activations->backend->ops->gemm(
        activations->backend,
        &(struct gemm_args){.a = x, .b = weight, .c = y, .transpose_b = true, .alpha = 1, .beta = beta, .exact = true});
}

/* The memory at `data` as a matrix of the shape of x. */
static struct matrix shaped(const struct activations *activations, void *data, struct matrix x)
{
    return matrix_of(data, x.rows, x.columns, activations->backend->ops->element);
}

static void run_rows(const struct activations *activations, const struct activation_entry *entry, struct matrix weight,
                     struct matrix x, struct matrix y)
{
    struct round_rows_args args = entry->treatment;
    args.x = x;
    args.to = shaped(activations, activations->rounded, x);
    if (args.exact && args.threshold > 0) args.outliers = shaped(activations, activations->outliers, x);
    activations->backend->ops->round_rows(activations->backend, &args);
    multiply(activations, args.to, weight, y, 0);
    if (args.outliers.data != NULL) multiply(activations, args.outliers, entry->original, y, 1);
}

/* The first row of a sequence among the inputs of the product; the number of sequences: their end. */
static int64_t first_row(const struct pass *pass, const struct step *step, int64_t expert, int64_t sequence)
{
    const int64_t token = pass->batch->starts[sequence];
    return step->op == &op_experts ? experts_rows_before(pass, step, expert, token) : token;
}

static void product_run(void *owner, const struct pass *pass, const struct step *step, int64_t expert, struct matrix x,
                        struct matrix y)
{
    const struct activations *activations = owner;
    const int parameter = step->parameter[0] + (int)expert;
    const struct activation_entry *entry = &activations->entries[parameter];
    const struct matrix weight = pass_parameter(pass->parameters, parameter);
    x = activations_input(activations, parameter, x);
    if (!entry->active) {
        multiply(activations, x, weight, y, 0);
    } else if (entry->treatment.threshold == 0 || (step->op != &op_experts && x.rows != pass->batch->tokens)) {
        run_rows(activations, entry, weight, x, y);
    } else {
        for (int64_t s = 0, first = 0; s < pass->batch->sequences; s++) {
            const int64_t end = first_row(pass, step, expert, s + 1), rows = end - first;
            if (rows > 0)
                run_rows(activations, entry, weight, matrix_rows(x, first, rows), matrix_rows(y, first, rows));
            first = end;
        }
    }
}

void activations_turn(struct activations *activations, int parameter, const struct hadamard *online)
{
    activations->entries[parameter].online = online;
}

struct matrix activations_input(const struct activations *activations, int parameter, struct matrix x)
{
    const struct hadamard *online = activations->entries[parameter].online;
    if (online == NULL) return x;
    const struct matrix turned = shaped(activations, activations->turned, x);
    hadamard_rows(online, (struct hadamard_use){0}, x, turned);
    return turned;
}

enum status activations_init(struct activations *activations, struct backend *backend, int64_t tokens, int64_t widest,
                             struct error *error)
{
    enum status status;
    *activations = (struct activations){.backend = backend, .tokens = tokens, .widest = widest};
    activations->product = (struct linear_product){activations, product_run};
    if ((status = backend->ops->allocate(backend, tokens * widest, "turned activations", &activations->turned,
                                         error)) != STATUS_OK ||
        (status = backend->ops->allocate(backend, tokens * widest, "rounded activations", &activations->rounded,
                                         error)) != STATUS_OK)
        return status;
    return backend->ops->allocate(backend, backend_elements(backend, widest), "outliers", &activations->left, error);
}

static void give_back(struct backend *backend, void *block)
{
    if (block != NULL) backend->ops->release(backend, block);
}

void activations_clear(struct activations *activations)
{
    for (int i = 0; i < PROGRAM_PARAMETERS; i++) {
        struct activation_entry *entry = &activations->entries[i];
        give_back(activations->backend, entry->owned);
        matrix_release(activations->backend, &entry->original);
        *entry = (struct activation_entry){0};
    }
}

void activations_reset(struct activations *activations)
{
    activations_clear(activations);
    give_back(activations->backend, activations->turned);
    give_back(activations->backend, activations->rounded);
    give_back(activations->backend, activations->outliers);
    give_back(activations->backend, activations->left);
    *activations = (struct activations){0};
}

enum status activations_set(struct activations *activations, int parameter, const struct activation *treatment,
                            int64_t columns, struct matrix original, struct error *error)
{
    struct backend *backend = activations->backend;
    struct activation_entry *entry = &activations->entries[parameter];
    const size_t count = (size_t)columns;
    const int64_t bytes = columns * (int64_t)(sizeof(float) + sizeof(uint8_t));
    enum status status;
    entry->active = treatment->bits > 0;
    entry->treatment = (struct round_rows_args){.bits = treatment->bits,
                                                .threshold = treatment->threshold,
                                                .exact = treatment->exact,
                                                .left = activations->left};
    entry->original = original;
    if (original.data != NULL && activations->outliers == NULL) {
        const int64_t elements = activations->tokens * activations->widest;
        status = backend->ops->allocate(backend, elements, "outliers", &activations->outliers, error);
        if (status != STATUS_OK) return status;
    }
    status = backend->ops->allocate(backend, backend_elements(backend, bytes), "activations", &entry->owned, error);
    if (status != STATUS_OK) return status;
    float *smoothing = entry->owned;
    uint8_t *spared = (uint8_t *)(smoothing + count);
    if (treatment->smoothing != NULL) {
        backend->ops->write_bytes(backend, smoothing, treatment->smoothing, count * sizeof *smoothing);
        entry->treatment.smoothing = smoothing;
    }
    if (treatment->spared != NULL) {
        backend->ops->write_bytes(backend, spared, treatment->spared, count * sizeof *spared);
        entry->treatment.spared = spared;
    }
    return STATUS_OK;
}
