/* GPTQ on the reference layers, on every backend of floats: at least 99 % of the codes, the proxy error within 1e-3
 * (1e-2 where a row passed a tie), scales to float's accuracy in the rows whose codes agree. */
#include "oracle.h"
#include "quant/quantizer.h"
#include "shared.h"

/* Names as in the file; fields follow from them. */
static const char *const cases[] = {
    "A.b2.g64.asym.act.d0.01",  "A.b3.g-1.asym.act.d0.01",  "A.b3.g128.sym.act.d0.01",  "A.b3.g128.sym.gar.d0.05",
    "A.b3.g32.sym.gar.d0.01",   "A.b4.g-1.sym.none.d0.01",  "A.b4.g128.sym.gar.d0.05",  "A.b4.g128.sym.none.d0.01",
    "A.b4.g256.sym.none.d0.01", "A.b4.g32.asym.none.d0.01", "A.b8.g128.sym.none.d0.01", "B.b2.g64.asym.act.d0.01",
    "B.b3.g-1.asym.act.d0.01",  "B.b3.g128.sym.act.d0.01",  "B.b3.g128.sym.gar.d0.05",  "B.b3.g32.sym.gar.d0.01",
    "B.b4.g-1.sym.none.d0.01",  "B.b4.g128.sym.gar.d0.05",  "B.b4.g128.sym.none.d0.01", "B.b4.g32.asym.none.d0.01",
    "B.b8.g128.sym.none.d0.01",
};

struct layer_data {
    int64_t rows, columns, tokens;
    float *weight, *input;
};

static void *field(const char *file, const char *name, const char *what)
{
    char key[96];
    (void)snprintf(key, sizeof key, "%s.%s", name, what);
    return shared_tensor(file, key, NULL);
}

static void check_case(struct backend *backend, const char *file, const char *name, const struct layer_data *data)
{
    struct oracle_case c = {.rows = data->rows, .columns = data->columns, .tokens = data->tokens};
    struct quantize_method method = {.quantizer = QUANTIZER_GPTQ};
    char grid[8], order[8];
    long long group;
    assert_int_equal(
        sscanf(name + 2, "b%d.g%lld.%7[a-z].%7[a-z].d%lf", &c.bits, &group, grid, order, &method.gptq.damp_percent), 5);
    method.gptq.bits = c.bits;
    method.gptq.group_size = group;
    method.gptq.sym = strcmp(grid, "sym") == 0;
    method.gptq.desc_act = strcmp(order, "act") == 0;
    method.gptq.act_group_aware = strcmp(order, "gar") == 0;

    const int64_t count = c.rows * c.columns;
    struct oracle o = {.weight = data->weight, .hessian = calloc((size_t)(c.columns * c.columns), sizeof(double))};
    float *weight = malloc((size_t)count * sizeof(float)),
          *hessian = malloc((size_t)(c.columns * c.columns) * sizeof(float));
    memcpy(weight, data->weight, (size_t)count * sizeof(float));
    for (int64_t t = 0; t < c.tokens; t++)
        for (int64_t i = 0; i < c.columns; i++)
            for (int64_t j = 0; j < c.columns; j++)
                o.hessian[i * c.columns + j] +=
                    2.0 / (double)c.tokens * data->input[t * c.columns + i] * data->input[t * c.columns + j];
    backend->ops->syrk(backend, matrix_of(hessian, c.columns, c.columns, 4),
                       matrix_of(data->input, c.tokens, c.columns, 4), 2.0 / (double)c.tokens, 0);
    const struct quantize_linear linear = {name, matrix_of(weight, c.rows, c.columns, 4)};
    const struct quantize_task task = {
        .linears = &linear, .count = 1, .inputs = {.hessian = matrix_of(hessian, c.columns, c.columns, 4)}};
    struct quantized_layer layer = {0};
    struct error error;
    if (quantizer_gptq.quantize(backend, &method, &task, &layer, &error) != STATUS_OK)
        fail_msg("%s: %s", name, error.detail);

    uint8_t *codes = field(file, name, "codes"), *zeros = field(file, name, "zeros");
    double *scales = field(file, name, "scales"), *expected = malloc((size_t)count * sizeof(double));
    int32_t *g_idx = field(file, name, "g_idx");
    int64_t same = 0;
    for (int64_t r = 0; r < c.rows; r++) {
        int64_t row_same = 0;
        for (int64_t j = 0; j < c.columns; j++) {
            const int64_t i = r * c.columns + j, g = r * layer.groups + g_idx[j];
            assert_int_equal(layer.g_idx[j], g_idx[j]);
            expected[i] = (codes[i] - zeros[g]) * scales[g];
            row_same += layer.codes[i] == codes[i];
        }
        same += row_same;
        for (int64_t g = r * layer.groups; g < (r + 1) * layer.groups && row_same == c.columns; g++) {
            assert_int_equal(layer.zeros[g], zeros[g]);
            assert_true(fabs((double)layer.scales[g] - scales[g]) <= 1e-4 * scales[g]);
        }
    }
    const double proxy = oracle_proxy(&c, &o, expected), bound = same == count ? 1e-3 : 1e-2;
    if ((double)same < 0.99 * (double)count || fabs(layer.proxy_error - proxy) > bound * proxy)
        fail_msg("%s %s: %lld of %lld codes equal, proxy %.6g, expected %.6g", backend->ops->name, name,
                 (long long)same, (long long)count, layer.proxy_error, proxy);
    quantized_layer_reset(&layer);
    void *blocks[] = {codes, zeros, scales, expected, g_idx, weight, hessian, o.hessian};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) free(blocks[i]);
}

/* Before anything is held: it may skip the test. */
#define REFERENCE_FILE(path) shared_require("reference/quant/gptq.safetensors", path, sizeof(path))

static void check_backend(struct backend *backend, const char *file)
{
    struct layer_data layers[2] = {{.rows = 32, .columns = 256, .tokens = 400},
                                   {.rows = 48, .columns = 128, .tokens = 96}};
    for (int i = 0; i < 2; i++) {
        layers[i].weight = shared_tensor(file, i == 0 ? "A.W" : "B.W", NULL);
        layers[i].input = shared_tensor(file, i == 0 ? "A.X" : "B.X", NULL);
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_case(backend, file, cases[i], &layers[cases[i][0] == 'B']);
    for (int i = 0; i < 2; i++) {
        free(layers[i].weight);
        free(layers[i].input);
    }
}

static void test_reference_layers_on_plain_loops(void **state)
{
    (void)state;
    char file[512];
    struct backend *backend;
    struct error error;
    (void)REFERENCE_FILE(file);
    assert_int_equal(backend_reference_new(false, NULL, &backend, &error), STATUS_OK);
    check_backend(backend, file);
    backend_free(backend);
}

static void test_reference_layers_on_the_cpu_backend(void **state)
{
    (void)state;
    char file[512];
    struct backend *backend;
    struct team *team;
    struct error error;
    (void)REFERENCE_FILE(file);
    assert_int_equal(team_new(2, &team, &error), STATUS_OK);
    assert_int_equal(backend_cpu_new(team, &backend, &error), STATUS_OK);
    check_backend(backend, file);
    backend_free(backend);
    team_free(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_layers_on_plain_loops),
        cmocka_unit_test(test_reference_layers_on_the_cpu_backend),
    };
    return cmocka_run_group_tests_name("gptq reference layers", tests, NULL, NULL);
}
