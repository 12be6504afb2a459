/* Codes in words, and the tensors of each format, against words that were put together by hand. */
#include "engine/files/scratch.h"
#include "quant/export_format.h"
#include "quant/packing.h"

static struct error error;

static void test_codes_lie_from_the_lowest_bits_on(void **state)
{
    const uint8_t codes[] = {1, 2, 3, 4, 5, 6, 7, 8, 15};
    uint32_t words[2];
    (void)state;
    assert_int_equal(packing_words(9, 4), 2);
    packing_pack(codes, 1, 9, 4, words, 1);
    assert_int_equal(words[0], 0x87654321);
    assert_int_equal(words[1], 0xf);
}

/* 3 bits: the eleventh code has two of its bits in the first word and one in the second. */
static void test_codes_of_3_bits_cross_words(void **state)
{
    uint8_t codes[32] = {0};
    uint32_t words[3];
    (void)state;
    codes[0] = 1;
    codes[10] = 7;
    codes[11] = 2;
    codes[31] = 5;
    assert_int_equal(packing_words(32, 3), 3);
    packing_pack(codes, 1, 32, 3, words, 1);
    assert_int_equal(words[0], 0xc0000001);
    assert_int_equal(words[1], 0x1 | 2 << 1);
    assert_int_equal(words[2], 0xa0000000);
}

static void test_codes_and_words_may_lie_apart(void **state)
{
    const uint8_t codes[] = {1, 9, 2, 9, 3, 9};
    uint32_t words[3] = {7, 7, 7};
    (void)state;
    packing_pack(codes, 2, 3, 8, words + 1, 2);
    assert_int_equal(words[0], 7);
    assert_int_equal(words[1], 0x030201);
    assert_int_equal(words[2], 7);
}

enum { ROWS = 32, COLUMNS = 32 };

/* Row r, column c has the code (r + c) % 16; scale 0.5 and zero 7 (8 where sym) in the first group, 0.25 and 3 in the
 * second. */
static struct quantized_layer layer_of(bool sym)
{
    struct quantized_layer layer = {0};
    assert_int_equal(
        quantized_layer_init(&layer, ROWS, COLUMNS, (struct coding){.bits = 4, .sym = sym, .group_size = 16}, &error),
        STATUS_OK);
    for (int64_t r = 0; r < ROWS; r++) {
        for (int64_t c = 0; c < COLUMNS; c++) layer.codes[r * COLUMNS + c] = (uint8_t)((r + c) % 16);
        for (int64_t g = 0; g < 2; g++) {
            layer.scales[r * 2 + g] = g == 0 ? 0.5F : 0.25F;
            layer.zeros[r * 2 + g] = sym ? 8 : g == 0 ? 7 : 3;
        }
    }
    return layer;
}

/* Writes the layer as the format has it and gives its bytes in the file, tensor by tensor. */
struct written {
    struct scratch scratch;
    struct export_tensor tensors[EXPORT_TENSORS];
    char *bytes;
    size_t size;
};

static void write_layer(struct written *out, const struct export_format *format, const struct quantized_layer *layer)
{
    const struct export_grid grid = {.bits = 4, .group_size = 16, .sym = layer->coding.sym, .stored = DTYPE_F32};
    struct safetensors_entry entries[EXPORT_TENSORS];
    struct weights_writer *writer;
    scratch_open(&out->scratch);
    const int count = format->tensors(&grid, layer->rows, layer->columns, out->tensors);
    for (int i = 0; i < count; i++)
        entries[i] = (struct safetensors_entry){out->tensors[i].suffix, out->tensors[i].dtype, out->tensors[i].rank,
                                                out->tensors[i].shape};
    const struct weights_writer_target target = {.directory = out->scratch.directory,
                                                 .shard_bytes = WEIGHTS_WRITER_SHARD_BYTES};
    assert_int_equal(weights_writer_open(&target, entries, count, &writer, &error), STATUS_OK);
    assert_int_equal(format->write(&grid, layer, &(struct export_place){.writer = writer}, &error), STATUS_OK);
    assert_int_equal(weights_writer_commit(writer, &error), STATUS_OK);
    weights_writer_close(writer);
    const int descriptor = open(scratch_path(&out->scratch, "model.safetensors"), O_RDONLY | O_CLOEXEC);
    struct stat file;
    assert_int_equal(fstat(descriptor, &file), 0);
    out->size = (size_t)file.st_size;
    out->bytes = malloc(out->size);
    assert_int_equal(read(descriptor, out->bytes, out->size), out->size);
    (void)close(descriptor);
}

/* The words of a tensor: its data_offsets are read off the header. */
static const void *data_of(const struct written *written, const char *name)
{
    uint64_t length;
    char key[80];
    memcpy(&length, written->bytes, sizeof length);
    char *header = strndup(written->bytes + 8, length);
    (void)snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(header, key);
    assert_non_null(at);
    at = strstr(at, "\"data_offsets\":[") + strlen("\"data_offsets\":[");
    const long offset = strtol(at, NULL, 10);
    free(header);
    return written->bytes + 8 + length + offset;
}

static void written_close(struct written *written)
{
    free(written->bytes);
    scratch_close(&written->scratch);
}

static void test_gptq_packs_inputs_and_stores_zero_less_one(void **state)
{
    struct quantized_layer layer = layer_of(true);
    struct written written;
    (void)state;
    write_layer(&written, &export_gptq, &layer);
    const uint32_t *codes = data_of(&written, "qweight"), *zeros = data_of(&written, "qzeros");
    const uint16_t *scales = data_of(&written, "scales");
    const int32_t *groups = data_of(&written, "g_idx");
    assert_int_equal(codes[0], 0x76543210);        /* row 0, columns 0 to 7 */
    assert_int_equal(codes[1], 0x87654321);        /* row 1 */
    assert_int_equal(codes[ROWS + 1], 0x0fedcba9); /* row 1, columns 8 to 15 */
    assert_int_equal(zeros[0], 0x77777777);
    assert_int_equal(scales[0], 0x3800);    /* 0.5 */
    assert_int_equal(scales[ROWS], 0x3400); /* 0.25 */
    assert_true(groups[15] == 0 && groups[16] == 1);
    written_close(&written);
    quantized_layer_reset(&layer);
}

static void test_gptq_stores_zeros_of_asymmetric_grids_as_they_are(void **state)
{
    struct quantized_layer layer = layer_of(false);
    struct written written;
    (void)state;
    write_layer(&written, &export_gptq, &layer);
    const uint32_t *zeros = data_of(&written, "qzeros");
    assert_int_equal(zeros[0], 0x77777777);
    assert_int_equal(zeros[ROWS / 8], 0x33333333);
    written_close(&written);
    quantized_layer_reset(&layer);
}

static void test_awq_packs_outputs_with_the_even_ones_first(void **state)
{
    struct quantized_layer layer = layer_of(false);
    struct written written;
    (void)state;
    layer.zeros[1 * 2] = 1; /* row 1, first group: the fifth place of its word */
    write_layer(&written, &export_awq, &layer);
    const uint32_t *codes = data_of(&written, "qweight"), *zeros = data_of(&written, "qzeros");
    const uint16_t *scales = data_of(&written, "scales");
    assert_int_equal(codes[0], 0x75316420);        /* column 0, rows 0 to 7 */
    assert_int_equal(codes[ROWS / 8], 0x86427531); /* column 1 */
    assert_int_equal(zeros[0], 0x77717777);
    assert_int_equal(zeros[ROWS / 8], 0x33333333);
    assert_int_equal(scales[ROWS], 0x3400);
    written_close(&written);
    quantized_layer_reset(&layer);
}

static void test_compressed_tensors_pack_rows_and_zeros_by_output(void **state)
{
    struct quantized_layer layer = layer_of(false);
    struct written written;
    (void)state;
    layer.zeros[9 * 2 + 1] = 12; /* row 9, second group */
    write_layer(&written, &export_compressed_tensors, &layer);
    const uint32_t *codes = data_of(&written, "weight_packed"), *zeros = data_of(&written, "weight_zero_point");
    const float *scales = data_of(&written, "weight_scale");
    const int64_t *shape = data_of(&written, "weight_shape");
    assert_int_equal(codes[0], 0x76543210);
    assert_int_equal(codes[COLUMNS / 8], 0x87654321); /* row 1 */
    assert_true(zeros[0] == 0x77777777 && zeros[1] == 0x33333333);
    assert_int_equal(zeros[1 * 2 + 1], 0x333333c3);
    assert_true(scales[0] == 0.5F && scales[1] == 0.25F);
    assert_true(shape[0] == ROWS && shape[1] == COLUMNS);
    written_close(&written);
    quantized_layer_reset(&layer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_lie_from_the_lowest_bits_on),
        cmocka_unit_test(test_codes_of_3_bits_cross_words),
        cmocka_unit_test(test_codes_and_words_may_lie_apart),
        cmocka_unit_test(test_gptq_packs_inputs_and_stores_zero_less_one),
        cmocka_unit_test(test_gptq_stores_zeros_of_asymmetric_grids_as_they_are),
        cmocka_unit_test(test_awq_packs_outputs_with_the_even_ones_first),
        cmocka_unit_test(test_compressed_tensors_pack_rows_and_zeros_by_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
