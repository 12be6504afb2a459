/* cases.h: one call of each slot on random inputs, written once for any backend. A case makes its inputs from a seed
 * (values are floats, so that a float and a double backend start from the same numbers), runs, and records what came
 * out as doubles, each output with a bound on the error of a float backend: unit roundoff times growth times a norm,
 * worked out where the case is. */
#ifndef TESTS_BACKEND_CASES_H
#define TESTS_BACKEND_CASES_H

#include "backend/backend.h"
#include "backend/cpu/levels.h"
#include "base/checksum.h"
#include "base/random.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDOFF 0x1p-24 /* of a float */

enum { MAX_BLOCKS = 64, MAX_OUTPUTS = 16 };

struct output {
    const char *name;
    double *values;
    int64_t count;
    double bound; /* absolute */
};

struct world {
    struct backend *backend;
    uint64_t seed, stream;
    void *blocks[MAX_BLOCKS];
    int block_count;
    struct output outputs[MAX_OUTPUTS];
    int output_count;
};

/* With DELTAQ_SHOW_BITS in the environment a line for each output, `bits BACKEND NUMBERS CHECKSUM NAME`, which
 * tests/arm/bits.py compares with those of another processor. */
#define SHOW_BITS "DELTAQ_SHOW_BITS"

static inline void show_bits(const struct world *world, const char *name, const void *from, size_t size,
                             int64_t numbers)
{
    struct checksum sum;
    if (getenv(SHOW_BITS) == NULL) return;
    checksum_init(&sum);
    checksum_add(&sum, from, size);
    printf("bits %s %lld %016llx %s\n", world->backend->ops->name, (long long)numbers,
           (unsigned long long)checksum_value(&sum), name);
}

/* Lets go of all but the outputs. */
static inline void world_end(struct world *world)
{
    for (int i = 0; i < world->block_count; i++) world->backend->ops->release(world->backend, world->blocks[i]);
    for (int i = 0; i < world->output_count; i++) {
        const struct output *output = &world->outputs[i];
        show_bits(world, output->name, output->values, (size_t)output->count * sizeof(double), output->count);
    }
    world->block_count = 0;
    world->stream = 0;
}

static inline void outputs_free(struct world *world)
{
    for (int i = 0; i < world->output_count; i++) free(world->outputs[i].values);
    world->output_count = 0;
}

static inline void world_clear(struct world *world)
{
    world_end(world);
    outputs_free(world);
}

/* A matrix of zeros whose rows lie `gap` elements apart. */
static inline struct matrix world_zeros(struct world *world, int64_t rows, int64_t columns, int64_t gap)
{
    struct error error;
    struct matrix m = {NULL, rows, columns, columns + gap, world->backend->ops->element};
    const enum status status =
        world->backend->ops->allocate(world->backend, rows * (columns + gap), "test matrix", &m.data, &error);
    assert_int_equal(status, STATUS_OK);
    assert_true(world->block_count < MAX_BLOCKS);
    world->blocks[world->block_count++] = m.data;
    return m;
}

static inline double *world_doubles(int64_t count)
{
    double *values = calloc((size_t)count + 1, sizeof *values);
    assert_non_null(values);
    return values;
}

/* Nearly normal, and fast, for cases of millions of numbers: four 16-bit uniform ones added up, from the `index`-th
 * output of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
static inline double nearly_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint64_t x = (seed << 56) + (stream << 36) + index + 1;
    x *= 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    const double sum = (double)((x & 0xffff) + ((x >> 16) & 0xffff) + ((x >> 32) & 0xffff) + (x >> 48));
    return (sum / 65536 - 2) * 1.7320508075688772;
}

/* Nearly normal numbers times `scale`, rounded to float. */
static inline struct matrix world_random(struct world *world, int64_t rows, int64_t columns, int64_t gap, double scale)
{
    struct matrix m = world_zeros(world, rows, columns, gap);
    double *values = world_doubles(rows * columns);
    world->stream++;
    for (int64_t i = 0; i < rows * columns; i++)
        values[i] = (double)(float)(scale * nearly_normal(world->seed, world->stream, (uint64_t)i));
    world->backend->ops->upload(world->backend, m, values, DTYPE_F64);
    free(values);
    return m;
}

static inline double *world_read(const struct world *world, struct matrix m)
{
    double *values = world_doubles(m.rows * m.columns);
    world->backend->ops->download(world->backend, m, values, DTYPE_F64);
    return values;
}

static inline double largest_size(const double *values, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(values[i]));
    return largest;
}

/* The largest |element| and the largest Euclidean norm of a row. */
static inline double world_largest(const struct world *world, struct matrix m)
{
    double *values = world_read(world, m);
    const double largest = largest_size(values, m.rows * m.columns);
    free(values);
    return largest;
}

static inline void world_put(struct world *world, const char *name, double *values, int64_t count, double bound)
{
    assert_true(world->output_count < MAX_OUTPUTS);
    world->outputs[world->output_count++] = (struct output){name, values, count, bound};
}

/* Records a matrix; its bound is `growth` roundings of its largest element or of `norm`, whichever is larger. */
static inline void world_record(struct world *world, const char *name, struct matrix m, double growth, double norm)
{
    double *values = world_read(world, m);
    const double size = fmax(norm, largest_size(values, m.rows * m.columns));
    world_put(world, name, values, m.rows * m.columns, growth * ROUNDOFF * size);
}

/* Sequences of the given lengths. */
struct test_batch {
    struct batch batch;
    int64_t starts[16];
    uint32_t ids[4096], targets[4096];
    int32_t positions[4096];
};

static inline void test_batch_fill(struct test_batch *b, const int64_t *lengths, int64_t sequences, uint32_t vocabulary)
{
    int64_t t = 0, longest = 0;
    for (int64_t s = 0; s < sequences; s++) {
        b->starts[s] = t;
        longest = lengths[s] > longest ? lengths[s] : longest;
        for (int64_t i = 0; i < lengths[s]; i++, t++) {
            assert_true(t < 4096);
            b->positions[t] = (int32_t)i;
            b->ids[t] = (uint32_t)random_below(11, 1, (uint64_t)t, vocabulary);
            b->targets[t] = (uint32_t)random_below(11, 2, (uint64_t)t, vocabulary);
        }
        b->targets[t - 1] = TARGET_NONE;
    }
    b->starts[sequences] = t;
    b->batch = (struct batch){t, sequences, longest, b->starts, b->ids, b->targets, b->positions, NULL};
}

/* Runs the case on both and holds `tested` against `truth`; the first one's bounds count. */
static inline void compare_outputs(const struct world *truth, const struct world *tested)
{
    assert_int_equal(truth->output_count, tested->output_count);
    for (int i = 0; i < truth->output_count; i++) {
        const struct output *a = &truth->outputs[i], *b = &tested->outputs[i];
        double worst = 0;
        int64_t at = 0;
        for (int64_t j = 0; j < a->count; j++) {
            const double gap = fabs(a->values[j] - b->values[j]);
            if (gap > worst || isnan(gap)) worst = gap, at = j;
            if (isnan(gap)) break;
        }
        if (getenv("DELTAQ_SHOW_ERRORS") != NULL)
            print_message("%s: worst %.3g of bound %.3g\n", a->name, worst, a->bound);
        if (!(worst <= a->bound))
            fail_msg("%s[%lld]: %.9g expected %.9g: error %.3g over bound %.3g", a->name, (long long)at, b->values[at],
                     a->values[at], worst, a->bound);
    }
}

static inline void same_outputs(const struct world *one, const struct world *two)
{
    assert_int_equal(one->output_count, two->output_count);
    for (int i = 0; i < one->output_count; i++)
        if (memcmp(one->outputs[i].values, two->outputs[i].values, (size_t)one->outputs[i].count * sizeof(double)) != 0)
            fail_msg("%s: bits depend on the number of threads", one->outputs[i].name);
}

/* Backends to hold against each other: doubles, and the fast one with one thread and with three. */
struct rivals {
    struct team *team;
    struct world truth, one, many;
};

/* Every kind of machine: each level of kernels (those this processor lacks repeat the best it has), and no OpenBLAS.
 * Runs the tests on all of them. */
struct machine {
    const char *kernels, *openblas;
};

static const struct machine machines[] = {
    {NULL, NULL}, /* the best there is, with tile units where there are some */
#ifndef TESTS_CUDA_STAND_IN_H
#define X(level) {KERNEL_FAMILY #level, NULL},
    KERNEL_LEVELS(X)
#undef X
        {KERNEL_FAMILY, "none"}, /* no level: the best one, without tile units */
#endif
};

static inline void machine_choose(const struct machine *machine)
{
    if (machine->kernels != NULL)
        setenv("DELTAQ_KERNELS", machine->kernels, 1);
    else
        unsetenv("DELTAQ_KERNELS");
    if (machine->openblas != NULL)
        setenv("DELTAQ_OPENBLAS", machine->openblas, 1);
    else
        unsetenv("DELTAQ_OPENBLAS");
}

static inline int rivals_open(void **state)
{
    struct rivals *rivals = calloc(1, sizeof *rivals);
    struct error error;
    if (rivals == NULL || team_new(3, &rivals->team, &error) != STATUS_OK) return -1;
    if (backend_reference_new(true, rivals->team, &rivals->truth.backend, &error) != STATUS_OK) return -1;
    if (backend_cpu_new(NULL, &rivals->one.backend, &error) != STATUS_OK) return -1;
    if (backend_cpu_new(rivals->team, &rivals->many.backend, &error) != STATUS_OK) return -1;
    *state = rivals;
    return 0;
}

static inline int rivals_close(void **state)
{
    struct rivals *rivals = *state;
    backend_free(rivals->truth.backend);
    backend_free(rivals->one.backend);
    backend_free(rivals->many.backend);
    team_free(rivals->team);
    free(rivals);
    return 0;
}

/* NULL behind the last. Bits are shown of the machine that the environment describes. */
static inline const struct machine *machine_at(size_t i)
{
    return i < (getenv(SHOW_BITS) == NULL ? sizeof machines / sizeof machines[0] : 1) ? &machines[i] : NULL;
}

/* What the reference gave in the calls of rivals_run so far. Every machine makes the same calls in the same order, and
 * is held to the same numbers; they take longer than all the rest, and so are worked out for the first one alone. */
struct truths {
    struct truth {
        void (*run)(struct world *world, const void *shape);
        struct world ended; /* its outputs alone are left */
    } * found;
    size_t count, at; /* `at`: of the next call */
};

static inline struct truths *truths_kept(void)
{
    static struct truths kept;
    return &kept;
}

static inline void truths_cut(struct truths *truths, size_t count)
{
    while (truths->count > count) outputs_free(&truths->found[--truths->count].ended);
}

static inline void truths_free(struct truths *truths)
{
    truths_cut(truths, 0);
    free(truths->found);
    *truths = (struct truths){0};
}

static inline const struct world *truth_of(struct world *world, void (*run)(struct world *world, const void *shape),
                                           const void *shape)
{
    struct truths *truths = truths_kept();
    const size_t at = truths->at;
    if (at < truths->count && truths->found[at].run != run) truths_cut(truths, at); /* a test has failed between */
    if (at == truths->count) {
        if ((at & (at - 1)) == 0) truths->found = realloc(truths->found, (at == 0 ? 1 : 2 * at) * sizeof(struct truth));
        assert_non_null(truths->found);
        world->seed = 5;
        run(world, shape);
        world_end(world);
        truths->found[truths->count++] = (struct truth){run, *world};
        world->output_count = 0;
    }
    truths->at++;
    return &truths->found[at].ended;
}

static inline void rivals_run(struct rivals *rivals, void (*run)(struct world *world, const void *shape),
                              const void *shape)
{
    const struct world *truth = truth_of(&rivals->truth, run, shape);
    rivals->one.seed = rivals->many.seed = 5;
    run(&rivals->one, shape);
    run(&rivals->many, shape);
    compare_outputs(truth, &rivals->one);
    same_outputs(&rivals->one, &rivals->many);
    world_clear(&rivals->one);
    world_clear(&rivals->many);
}

#define RUN_ON_ALL_MACHINES(name, tests, open, close)                         \
    ({                                                                        \
        int failed_ = 0;                                                      \
        for (size_t i_ = 0; machine_at(i_) != NULL; i_++) {                   \
            if (getenv(SHOW_BITS) == NULL) machine_choose(machine_at(i_));    \
            truths_kept()->at = 0;                                            \
            failed_ += cmocka_run_group_tests_name(name, tests, open, close); \
        }                                                                     \
        truths_free(truths_kept());                                           \
        failed_;                                                              \
    })

#endif
