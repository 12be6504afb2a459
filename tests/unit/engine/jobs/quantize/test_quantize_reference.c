/* Whole-model quantization against the reference: documents in, quantized model and losses out.
 * Module by module, every module replaced by the reference's before the next is computed: at least 99 % equal codes,
 * proxy error within 1e-2. End to end a single flipped code changes every later Hessian, so the damage is held to a
 * band that three implementations span. */
#include "base/memory.h"
#include "files/file.h"
#include "files/json_reader.h"
#include "jobs/quantize/quantize.h"
#include "shared.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 4, MODULES = 32 };

struct expected_case {
    char name[40];
    double delta, delta_rtn, low, high; /* low, high: of delta over the implementations that were recorded */
    int modules;
    struct {
        char name[PARAMETER_NAME];
        double proxy;
        int64_t tokens;
    } module[MODULES];
};

struct expected {
    char directory[512], tensors[600];
    struct sequences calibration, evaluation;
    double loss_fp;
    int count;
    struct expected_case cases[CASES];
};

/* [[ids], …] in rows of more than `shortest` tokens. */
static void read_sequences(struct json_reader *reader, int64_t shortest, struct sequences *out)
{
    out->starts = calloc(100, sizeof(int64_t));
    out->tokens = calloc(10000, sizeof(uint32_t));
    json_reader_array(reader);
    while (json_reader_next_item(reader)) {
        const int64_t start = out->starts[out->count];
        int64_t count = 0, id = 0;
        json_reader_array(reader);
        while (json_reader_next_item(reader)) {
            json_reader_int64(reader, 0, 1000000, &id);
            assert_true(start + count < 10000 && out->count < 98);
            out->tokens[start + count++] = (uint32_t)id;
        }
        if (count > shortest) out->starts[++out->count] = start + count;
    }
}

static void read_modules(struct json_reader *reader, struct expected_case *out)
{
    struct json_reader_text key;
    json_reader_object(reader);
    while (json_reader_next_key(reader, &key)) {
        assert_true(out->modules < MODULES && key.size < PARAMETER_NAME);
        memcpy(out->module[out->modules].name, key.bytes, key.size);
        json_reader_object(reader);
        while (json_reader_next_key(reader, &key)) {
            if (json_reader_is(key, "proxy")) json_reader_double(reader, &out->module[out->modules].proxy);
            if (json_reader_is(key, "tokens")) json_reader_int64(reader, 0, 1000000, &out->module[out->modules].tokens);
        }
        out->modules++;
    }
}

static void widen(struct expected_case *out, double delta)
{
    out->low = fmin(out->low, delta);
    out->high = fmax(out->high, delta);
}

static void read_case(struct json_reader *reader, struct expected_case *out)
{
    struct json_reader_text key;
    double other = 0;
    out->low = INFINITY;
    out->high = -INFINITY;
    json_reader_object(reader);
    while (json_reader_next_key(reader, &key)) {
        if (json_reader_is(key, "delta_q")) {
            json_reader_double(reader, &out->delta);
            widen(out, out->delta);
        } else if (json_reader_is(key, "delta_rtn")) {
            json_reader_double(reader, &out->delta_rtn);
        } else if (json_reader_is(key, "modules")) {
            read_modules(reader, out);
        } else if (json_reader_is(key, "library_f64") || json_reader_is(key, "library_f32")) {
            json_reader_object(reader);
            while (json_reader_next_key(reader, &key))
                if (json_reader_is(key, "delta_q_fp16_scales") && json_reader_double(reader, &other)) widen(out, other);
        }
    }
}

static void read_expected(const char *kind, struct expected *out)
{
    char relative[64], path[600], *text = NULL;
    size_t size = 0;
    struct error error;
    struct json_reader reader;
    struct json_reader_text key;
    memset(out, 0, sizeof *out);
    (void)snprintf(relative, sizeof relative, "reference/gptq_model/%s", kind);
    shared_require(relative, out->directory, sizeof out->directory);
    (void)snprintf(out->tensors, sizeof out->tensors, "%s/reference.safetensors", out->directory);
    (void)snprintf(path, sizeof path, "%s/reference.json", out->directory);
    assert_int_equal(file_read_all(AT_FDCWD, path, 1 << 24, &text, &size, &error), STATUS_OK);
    json_reader_init(&reader, "reference.json", text, size, NULL, &error);
    json_reader_object(&reader);
    while (json_reader_next_key(&reader, &key)) {
        if (json_reader_is(key, "calibration_documents")) read_sequences(&reader, 10, &out->calibration);
        if (json_reader_is(key, "eval_tokens")) read_sequences(&reader, 0, &out->evaluation);
        if (json_reader_is(key, "loss_fp")) json_reader_double(&reader, &out->loss_fp);
        if (!json_reader_is(key, "cases")) continue;
        json_reader_object(&reader);
        while (json_reader_next_key(&reader, &key)) {
            assert_true(out->count < CASES && key.size < sizeof out->cases[0].name);
            memcpy(out->cases[out->count].name, key.bytes, key.size);
            read_case(&reader, &out->cases[out->count++]);
        }
    }
    if (json_reader_finish(&reader) != STATUS_OK) fail_msg("%s", error.detail);
    memory_free(text);
    assert_true(out->count > 0);
}

static void free_expected(struct expected *expected)
{
    free(expected->calibration.starts);
    free(expected->calibration.tokens);
    free(expected->evaluation.starts);
    free(expected->evaluation.tokens);
}

static struct quantize_method method_of(const char *name)
{
    struct quantize_method method = {.quantizer = QUANTIZER_GPTQ};
    char grid[8], order[8];
    long long bits, group;
    assert_int_equal(
        sscanf(name, "b%lld.g%lld.%7[a-z].%7[a-z].d%lf", &bits, &group, grid, order, &method.gptq.damp_percent), 5);
    method.gptq.bits = bits;
    method.gptq.group_size = group;
    method.gptq.sym = strcmp(grid, "sym") == 0;
    method.gptq.desc_act = strcmp(order, "act") == 0;
    method.gptq.act_group_aware = strcmp(order, "gar") == 0;
    return method;
}

/* Compares a layer with the reference and puts the reference in its place. */
struct teacher {
    const struct expected *expected;
    const struct expected_case *expected_case;
    int seen;
};

static enum status teach(void *owner, const char *name, const struct quantized_layer *layer, struct matrix weight,
                         struct error *error)
{
    struct teacher *teacher = owner;
    char key[200];
    int64_t same = 0;
    int module = 0;
    (void)error;
    (void)snprintf(key, sizeof key, "%s.%s.codes", teacher->expected_case->name, name);
    uint8_t *codes = shared_tensor(teacher->expected->tensors, key, NULL);
    (void)snprintf(key, sizeof key, "%s.%s.scales", teacher->expected_case->name, name);
    float *scales = shared_tensor(teacher->expected->tensors, key, NULL);
    int32_t *g_idx = layer->g_idx;
    if (layer->ordered) {
        (void)snprintf(key, sizeof key, "%s.%s.g_idx", teacher->expected_case->name, name);
        g_idx = shared_tensor(teacher->expected->tensors, key, NULL);
        assert_memory_equal(g_idx, layer->g_idx, (size_t)layer->columns * sizeof *g_idx);
    }
    for (int64_t i = 0; i < layer->rows * layer->columns; i++) {
        const int64_t r = i / layer->columns, c = i % layer->columns;
        same += codes[i] == layer->codes[i];
        ((float *)weight.data)[r * weight.stride + c] =
            (float)(codes[i] - (1 << (layer->coding.bits - 1))) * scales[r * layer->groups + g_idx[c]];
    }
    while (strcmp(teacher->expected_case->module[module].name, name) != 0)
        assert_true(++module < teacher->expected_case->modules);
    const double proxy = teacher->expected_case->module[module].proxy;
    if ((double)same < 0.99 * (double)(layer->rows * layer->columns) || fabs(layer->proxy_error - proxy) > 1e-2 * proxy)
        fail_msg("%s %s: %lld of %lld codes equal, proxy %g, expected %g", teacher->expected_case->name, name,
                 (long long)same, (long long)(layer->rows * layer->columns), layer->proxy_error, proxy);
    if (layer->ordered) free(g_idx);
    free(codes);
    free(scales);
    teacher->seen++;
    return STATUS_OK;
}

/* Keeps how many codes of the first module agree. */
static enum status first_module(void *owner, const char *name, const struct quantized_layer *layer,
                                struct matrix weight, struct error *error)
{
    struct teacher *teacher = owner;
    char key[200];
    int64_t same = 0;
    (void)error;
    (void)weight;
    if (teacher->seen++ > 0) return STATUS_OK;
    (void)snprintf(key, sizeof key, "%s.%s.codes", teacher->expected_case->name, name);
    uint8_t *codes = shared_tensor(teacher->expected->tensors, key, NULL);
    for (int64_t i = 0; i < layer->rows * layer->columns; i++) same += codes[i] == layer->codes[i];
    assert_true((double)same >= 0.999 * (double)(layer->rows * layer->columns));
    free(codes);
    return STATUS_OK;
}

struct machine {
    struct team *team;
    struct backend *backend;
    struct model *model;
};

static void open_machine(struct machine *machine, const char *directory)
{
    struct error error;
    assert_int_equal(team_new(2, &machine->team, &error), STATUS_OK);
    assert_int_equal(backend_cpu_new(machine->team, &machine->backend, &error), STATUS_OK);
    if (model_open(directory, &machine->model, &error) != STATUS_OK) fail_msg("%s", error.detail);
}

static void close_machine(struct machine *machine)
{
    model_close(machine->model);
    backend_free(machine->backend);
    team_free(machine->team);
}

static void run(const struct machine *machine, const struct expected *expected, struct quantize_method method,
                struct sequential_hook hook, struct quantize_result *result)
{
    struct error error = {0};
    const struct quantize_request request = {
        .model = machine->model,
        .backend = machine->backend,
        .method = method,
        .calibration = &expected->calibration,
        .evaluation = &expected->evaluation,
        .hook = hook,
    };
    if (quantize_run(&request, result, &error) != STATUS_OK) fail_msg("%s", error.detail);
    assert_true(fabs(result->fp.loss - expected->loss_fp) <= 1e-5 * expected->loss_fp);
}

static void check_modules(const char *kind)
{
    struct expected expected;
    struct machine machine;
    struct quantize_result result;
    read_expected(kind, &expected);
    open_machine(&machine, expected.directory);
    for (int i = 0; i < expected.count; i++) {
        struct teacher teacher = {&expected, &expected.cases[i], 0};
        run(&machine, &expected, method_of(expected.cases[i].name), (struct sequential_hook){&teacher, teach}, &result);
        assert_int_equal(teacher.seen, expected.cases[i].modules);
        assert_int_equal(result.layer_count, teacher.seen);
        assert_int_equal(result.layers[0].tokens, expected.cases[i].module[0].tokens);
        /* with the reference's weights in place the loss is the reference's */
        assert_true(fabs(result.delta - expected.cases[i].delta) < 2e-5);
        quantize_result_reset(&result);
    }
    close_machine(&machine);
    free_expected(&expected);
}

static void check_whole(const char *kind)
{
    struct expected expected;
    struct machine machine;
    struct quantize_result result;
    read_expected(kind, &expected);
    open_machine(&machine, expected.directory);
    for (int i = 0; i < expected.count; i++) {
        const struct expected_case *c = &expected.cases[i];
        struct teacher teacher = {&expected, c, 0};
        struct quantize_method method = method_of(c->name);
        const double middle = (c->low + c->high) / 2;
        const double band = fmax(fmax(3 * (c->high - c->low), 0.25 * (c->delta_rtn - middle)), 0.004);
        run(&machine, &expected, method, (struct sequential_hook){&teacher, first_module}, &result);
        print_message("%s %s: delta %.5f [%.5f, %.5f], expected %.5f +- %.5f, kl %.5f, top-1 %.4f, %.3f bits\n", kind,
                      c->name, result.delta, result.delta_low, result.delta_high, middle, band, result.kl,
                      result.top1_agreement, result.bits_per_weight);
        assert_true(fabs(result.delta - middle) <= band);
        assert_true(result.delta < c->delta_rtn);
        assert_true(result.delta_low <= result.delta && result.delta <= result.delta_high);
        assert_true(result.kl > 0 && result.top1_agreement > 0.3 && result.top1_agreement < 1);
        assert_true(result.bits_per_weight == (double)method.gptq.bits + 16.0 / 128 || method.gptq.desc_act);
        quantize_result_reset(&result);

        method = (struct quantize_method){.quantizer = QUANTIZER_RTN, .rtn = {method.gptq.bits, 128, true}};
        run(&machine, &expected, method, (struct sequential_hook){0}, &result);
        assert_true(fabs(result.delta - c->delta_rtn) <= fmax(1e-4, 2e-3 * c->delta_rtn));
        quantize_result_reset(&result);
    }
    close_machine(&machine);
    free_expected(&expected);
}

static void test_llama_modules(void **state)
{
    (void)state;
    check_modules("llama");
}

static void test_gpt_neox_modules(void **state)
{
    (void)state;
    check_modules("gpt_neox");
}

static void test_llama_whole(void **state)
{
    (void)state;
    check_whole("llama");
}

static void test_gpt_neox_whole(void **state)
{
    (void)state;
    check_whole("gpt_neox");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_modules),
        cmocka_unit_test(test_gpt_neox_modules),
        cmocka_unit_test(test_llama_whole),
        cmocka_unit_test(test_gpt_neox_whole),
    };
    return cmocka_run_group_tests_name("quantize reference models", tests, NULL, NULL);
}
