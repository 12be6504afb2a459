#include "quant/hadamard.h"

#include "base/memory.h"

#include <string.h>

static bool is_prime(int64_t n)
{
    for (int64_t d = 2; d * d <= n; d++)
        if (n % d == 0) return false;
    return n > 1;
}

static int64_t power_of_two_in(int64_t n)
{
    return n & -n;
}

/* The least order whose quotient is a power of two; 0: none. */
static int64_t find_order(int64_t size)
{
    if (power_of_two_in(size) == size) return 1;
    for (int64_t m = 12; m <= HADAMARD_ORDER; m += 4)
        if (size % m == 0 && power_of_two_in(size / m) == size / m && is_prime(m - 1)) return m;
    return 0;
}

static void fill_paley(int8_t *paley, int64_t order)
{
    const int64_t q = order - 1;
    int8_t character[HADAMARD_ORDER];
    memset(character, -1, sizeof character);
    for (int64_t i = 1; i < q; i++) character[i * i % q] = 1;
    character[0] = 0;
    for (int64_t i = 0; i < order; i++)
        for (int64_t j = 0; j < order; j++) {
            const int8_t s = i == 0 ? (j > 0) : j == 0 ? -1 : character[(j - i + q) % q];
            paley[i * order + j] = (int8_t)(s + (i == j));
        }
}

enum status hadamard_init(struct hadamard *hadamard, struct backend *backend, int64_t size, struct error *error)
{
    const int64_t order = find_order(size);
    const size_t bytes = (size_t)(order * order);
    int8_t *paley = NULL;
    void *block = NULL;
    enum status status = STATUS_OK;
    *hadamard = (struct hadamard){.backend = backend, .size = size, .blocks = 1, .order = order};
    if (order == 0) {
        hadamard->order = 1;
        hadamard->blocks = size / power_of_two_in(size);
    }
    hadamard->power = size / hadamard->blocks / hadamard->order;
    if (hadamard->order > 1) {
        if ((status = memory_new(order * order, sizeof *paley, "a Hadamard matrix", &paley, error)) != STATUS_OK)
            goto done;
        fill_paley(paley, order);
        status = backend->ops->allocate(backend, backend_elements(backend, order * order), "a Hadamard matrix", &block,
                                        error);
        if (status != STATUS_OK) goto done;
        hadamard->paley = block;
        backend->ops->write_bytes(backend, block, paley, bytes);
    }
    if (backend->ops->host)
        status = memory_new(team_size(backend->team) * size * HADAMARD_PANEL, sizeof(double), "a rotation",
                            &hadamard->scratch, error);
done:
    memory_free(paley);
    return status;
}

void hadamard_reset(struct hadamard *hadamard)
{
    if (hadamard->paley != NULL) hadamard->backend->ops->release(hadamard->backend, hadamard->paley);
    memory_free(hadamard->scratch);
    *hadamard = (struct hadamard){0};
}

static void transform(const struct hadamard *hadamard, struct hadamard_use use, struct matrix x, struct matrix to,
                      bool columns)
{
    const struct hadamard_args args = {.x = x,
                                       .to = to,
                                       .columns = columns,
                                       .inverse = use.inverse,
                                       .centred = use.centred,
                                       .order = hadamard->order,
                                       .power = hadamard->power,
                                       .paley = hadamard->paley,
                                       .sign = use.sign,
                                       .scratch = hadamard->scratch};
    hadamard->backend->ops->hadamard(hadamard->backend, &args);
}

void hadamard_rows(const struct hadamard *hadamard, struct hadamard_use use, struct matrix x, struct matrix to)
{
    transform(hadamard, use, x, to, false);
}

void hadamard_columns(const struct hadamard *hadamard, struct hadamard_use use, struct matrix x)
{
    transform(hadamard, use, x, x, true);
}
