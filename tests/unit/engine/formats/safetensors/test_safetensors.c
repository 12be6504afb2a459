/* safetensors files: every rule of the header with an input that breaks only it, and reading. */
#include "engine/files/scratch.h"
#include "unit.h"

#include "formats/safetensors/safetensors.h"

#include <math.h>

/* Status of parsing `text` [size] before `data_bytes` of data, from memory of exactly that size. */
static enum status parse(const char *text, size_t size, int64_t data_bytes, struct error *error)
{
    struct safetensors_header *header = NULL;
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    const enum status status = safetensors_header_new("x.safetensors", copy, size, data_bytes, &header, error);
    assert_true((status == STATUS_OK) == (header != NULL));
    safetensors_header_free(header);
    free(copy);
    return status;
}

#define U8(name, size, begin, end) \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" #size "],\"data_offsets\":[" #begin "," #end "]}"

struct header_case {
    const char *what, *text;
    int64_t data_bytes;
    enum status status;
    const char *detail; /* some of the message */
};

static const struct header_case cases[] = {
    {"empty", "{}", 0, STATUS_OK, NULL},
    {"one", "{" U8("a", 4, 0, 4) "}", 4, STATUS_OK, NULL},
    {"spaces behind", "{" U8("a", 4, 0, 4) "}      ", 4, STATUS_OK, NULL},
    {"spaces inside", "{ \"a\" : { \"shape\" :[ 4 ] ,\n\"dtype\": \"U8\",\"data_offsets\":[0, 4] } }", 4, STATUS_OK,
     NULL},
    {"any order", "{" U8("b", 4, 4, 8) "," U8("a", 4, 0, 4) "}", 8, STATUS_OK, NULL},
    {"nothing between", "{" U8("a", 0, 0, 0) "," U8("b", 4, 0, 4) "," U8("c", 0, 4, 4) "}", 4, STATUS_OK, NULL},
    {"a number", "{\"a\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, STATUS_OK, NULL},
    {"rank 16", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
     STATUS_OK, NULL},
    {"metadata", "{\"__metadata__\":{\"format\":\"pt\",\"\\u0001\":\"\"}," U8("a", 4, 0, 4) "}", 4, STATUS_OK, NULL},
    {"path as name", "{" U8("../../a/b\\u00e4", 4, 0, 4) "}", 4, STATUS_OK, NULL},

    {"empty text", "", 0, STATUS_CORRUPT, "one JSON object"},
    {"leading space", " {}", 0, STATUS_CORRUPT, "one JSON object"},
    {"array", "[]", 0, STATUS_CORRUPT, "one JSON object"},
    {"newline behind", "{}\n", 0, STATUS_CORRUPT, "one JSON object"},
    {"tab behind", "{}\t", 0, STATUS_CORRUPT, "one JSON object"},
    {"two objects", "{}{}", 0, STATUS_CORRUPT, "expected the end"},
    {"bad JSON", "{\"a\":}", 0, STATUS_CORRUPT, "expected a value"},
    {"bad UTF-8", "{" U8("\xff", 4, 0, 4) "}", 4, STATUS_CORRUPT, "UTF-8"},
    {"lone surrogate", "{" U8("\\ud800", 4, 0, 4) "}", 4, STATUS_CORRUPT, "surrogate"},
    {"NUL in a name", "{" U8("a\\u0000b", 4, 0, 4) "}", 4, STATUS_CORRUPT, "control character"},
    {"newline in a name", "{" U8("a\\nb", 4, 0, 4) "}", 4, STATUS_CORRUPT, "control character"},
    {"DEL in a name", "{" U8("a\x7f", 4, 0, 4) "}", 4, STATUS_CORRUPT, "control character"},
    {"C1 in a name", "{" U8("a\\u0085", 4, 0, 4) "}", 4, STATUS_CORRUPT, "control character"},

    {"name twice", "{" U8("a", 4, 0, 4) "," U8("a", 4, 4, 8) "}", 8, STATUS_CORRUPT, "\"a\" is given twice"},
    {"name twice, escaped", "{" U8("a", 4, 0, 4) "," U8("\\u0061", 4, 4, 8) "}", 8, STATUS_CORRUPT,
     "\"a\" is given twice"},
    {"field twice", "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
     STATUS_CORRUPT, "twice"},
    {"field twice, escaped", "{\"a\":{\"dtype\":\"U8\",\"\\u0064type\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
     4, STATUS_CORRUPT, "twice"},
    {"unknown field", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"x\":1}}", 4, STATUS_CORRUPT,
     "unknown field"},
    {"no dtype", "{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, STATUS_CORRUPT, "lacks"},
    {"no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4, STATUS_CORRUPT, "lacks"},
    {"no offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, STATUS_CORRUPT, "lacks"},
    {"no object", "{\"a\":4}", 4, STATUS_CORRUPT, "expected an object"},
    {"unknown dtype", "{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, STATUS_UNSUPPORTED,
     "\"F4\""},
    {"dtype in lower case", "{\"a\":{\"dtype\":\"u8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, STATUS_UNSUPPORTED,
     "\"u8\""},
    {"dtype with NUL", "{\"a\":{\"dtype\":\"U8\\u0000\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, STATUS_CORRUPT,
     "NUL"},

    {"metadata twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, STATUS_CORRUPT, "given twice"},
    {"metadata twice, escaped", "{\"__metadata__\":{},\"\\u005f_metadata__\":{}}", 0, STATUS_CORRUPT, "given twice"},
    {"metadata key twice", "{\"__metadata__\":{\"a\":\"1\",\"b\":\"2\",\"\\u0061\":\"3\"}}", 0, STATUS_CORRUPT,
     "given twice"},
    {"metadata of numbers", "{\"__metadata__\":{\"a\":1}}", 0, STATUS_CORRUPT, "expected a string"},
    {"metadata nested", "{\"__metadata__\":{\"a\":{}}}", 0, STATUS_CORRUPT, "expected a string"},
    {"metadata null", "{\"__metadata__\":null}", 0, STATUS_CORRUPT, "expected an object"},

    {"rank 17", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1,
     STATUS_CORRUPT, "16 dimensions"},
    {"negative dimension", "{" U8("a", -4, 0, 4) "}", 4, STATUS_CORRUPT, "not in [0,"},
    {"minus zero", "{" U8("a", -0, 0, 0) "}", 0, STATUS_CORRUPT, "not in [0,"},
    {"fractional dimension", "{" U8("a", 4.0, 0, 4) "}", 4, STATUS_CORRUPT, "expected an integer"},
    {"dimension 2^48", "{" U8("a", 281474976710656, 0, 4) "}", 4, STATUS_CORRUPT, "not in [0,"},
    {"dimension 2^64 - 1", "{" U8("a", 18446744073709551615, 0, 4) "}", 4, STATUS_CORRUPT, "not in [0,"},
    {"elements overflow", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4,
     STATUS_CORRUPT, "too many elements"},
    {"overflow before zero", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,0]}}", 0,
     STATUS_CORRUPT, "too many elements"},
    {"bytes overflow", "{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,1073741824],\"data_offsets\":[0,0]}}", 0,
     STATUS_CORRUPT, "elements of F64"},
    {"nested shape", "{\"a\":{\"dtype\":\"U8\",\"shape\":[[4]],\"data_offsets\":[0,4]}}", 4, STATUS_CORRUPT,
     "expected a number"},

    {"too short", "{" U8("a", 4, 0, 3) "}", 3, STATUS_CORRUPT, "4 elements of U8 in 3 bytes"},
    {"too long", "{" U8("a", 4, 0, 5) "}", 5, STATUS_CORRUPT, "4 elements of U8 in 5 bytes"},
    {"past the end", "{" U8("a", 4, 0, 4) "}", 3, STATUS_CORRUPT, "data ends at 4"},
    {"offsets 2^64", "{" U8("a", 4, 0, 18446744073709551616) "}", 4, STATUS_CORRUPT, "out of range"},
    {"negative offsets", "{" U8("a", 4, -4, 0) "}", 4, STATUS_CORRUPT, "not in [0,"},
    {"reversed offsets", "{" U8("a", 4, 4, 0) "}", 4, STATUS_CORRUPT, "run backwards"},
    {"one offset", "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0]}}", 0, STATUS_CORRUPT,
     "fewer than two"},
    {"three offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0,0]}}", 0, STATUS_CORRUPT,
     "more than two"},
    {"hole before", "{" U8("a", 4, 1, 5) "}", 5, STATUS_CORRUPT, "leaving a hole after 0"},
    {"hole between", "{" U8("a", 4, 0, 4) "," U8("b", 4, 5, 9) "}", 9, STATUS_CORRUPT, "leaving a hole after 4"},
    {"overlap", "{" U8("a", 4, 0, 4) "," U8("b", 4, 3, 7) "}", 7, STATUS_CORRUPT, "inside another"},
    {"same span", "{" U8("a", 4, 0, 4) "," U8("b", 4, 0, 4) "}", 4, STATUS_CORRUPT, "inside another"},
    {"nothing inside", "{" U8("a", 4, 0, 4) "," U8("b", 0, 2, 2) "}", 4, STATUS_CORRUPT, "inside another"},
    {"trailing bytes", "{" U8("a", 4, 0, 4) "}", 5, STATUS_CORRUPT, "tensors end at 4"},
    {"data of no tensor", "{}", 1, STATUS_CORRUPT, "tensors end at 0"},
};

static void test_headers_are_held_to_every_rule(void **state)
{
    struct error error;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const enum status status = parse(cases[i].text, strlen(cases[i].text), cases[i].data_bytes, &error);
        if (status != cases[i].status) fail_msg("%s: %s: %s", cases[i].what, status_info(status)->name, error.detail);
        if (status != STATUS_OK && strstr(error.detail, cases[i].detail) == NULL)
            fail_msg("%s: %s", cases[i].what, error.detail);
    }
}

static void test_a_shape_of_200_dimensions_is_refused(void **state)
{
    char text[600] = "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1],\"shape\":[1";
    struct error error;
    (void)state;
    size_t size = strlen(text);
    for (int i = 1; i < 200; i++, size += 2) memcpy(text + size, ",1", 2);
    memcpy(text + size, "]}}", 3);
    assert_int_equal(parse(text, size + 3, 1, &error), STATUS_CORRUPT);
}

static void test_deep_nesting_is_refused_at_once(void **state)
{
    enum { DEPTH = 100000 };
    static const char start[] = "{\"a\":{\"shape\":";
    struct error error;
    char *text = malloc(DEPTH + sizeof start);
    (void)state;
    assert_non_null(text);
    memcpy(text, start, sizeof start - 1);
    memset(text + sizeof start - 1, '[', DEPTH);
    text[sizeof start - 1 + DEPTH] = '}';
    assert_int_equal(parse(text, DEPTH + sizeof start, 0, &error), STATUS_CORRUPT);
    memset(text, '{', DEPTH);
    text[DEPTH] = '}';
    assert_int_equal(parse(text, DEPTH + 1, 0, &error), STATUS_CORRUPT);
    free(text);
}

/* A small valid file: a BF16 [2,2], b F32 [1], c BOOL [2]. */
static size_t small_file(unsigned char *out)
{
    static const char header[] =
        "{\"c\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[12,14]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
        "\"data_offsets\":[0,4]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[4,12]}}";
    static const unsigned char data[] = {0, 0, 0x40, 0x40, 0x80, 0x3f, 0, 0x40, 0x80, 0xbf, 0xc0, 0x7f, 1, 0};
    const uint64_t length = sizeof header - 1;
    memcpy(out, &length, 8);
    memcpy(out + 8, header, length);
    memcpy(out + 8 + length, data, sizeof data);
    return 8 + length + sizeof data;
}

static enum status open_bytes(struct scratch *scratch, const void *bytes, size_t size, struct error *error)
{
    struct safetensors *file = NULL;
    scratch_write(scratch, "x.safetensors", bytes, size);
    const enum status status = safetensors_open(AT_FDCWD, scratch->path, &file, error);
    safetensors_close(file);
    return status;
}

static void test_a_file_cut_anywhere_is_corrupt(void **state)
{
    struct scratch scratch;
    struct error error;
    unsigned char bytes[512];
    (void)state;
    scratch_open(&scratch);
    const size_t size = small_file(bytes);
    for (size_t cut = 0; cut < size; cut++) assert_int_equal(open_bytes(&scratch, bytes, cut, &error), STATUS_CORRUPT);
    assert_int_equal(open_bytes(&scratch, bytes, size, &error), STATUS_OK);
    bytes[size] = 0;
    assert_int_equal(open_bytes(&scratch, bytes, size + 1, &error), STATUS_CORRUPT);
    scratch_close(&scratch);
}

static void test_lying_header_lengths_are_refused(void **state)
{
    static const uint64_t lengths[] = {0, 1, UINT64_MAX, INT64_MAX, UINT64_MAX - 7, 100000001, 1000};
    struct scratch scratch;
    struct error error;
    unsigned char bytes[512];
    (void)state;
    scratch_open(&scratch);
    const size_t size = small_file(bytes);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memcpy(bytes, &lengths[i], 8);
        assert_int_equal(open_bytes(&scratch, bytes, size, &error), STATUS_CORRUPT);
        assert_non_null(strstr(error.detail, "a header of"));
    }
    /* A length that the file has, but over the cap. */
    assert_int_equal(truncate(scratch.path, 200000000), 0);
    const int descriptor = open(scratch.path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(descriptor, &lengths[5], 8, 0), 8);
    (void)close(descriptor);
    struct safetensors *file = NULL;
    assert_int_equal(safetensors_open(AT_FDCWD, scratch.path, &file, &error), STATUS_CORRUPT);
    assert_non_null(strstr(error.detail, "a header of 100000001 bytes"));
    scratch_close(&scratch);
}

static void test_tensors_are_found_and_read(void **state)
{
    struct scratch scratch;
    struct error error;
    struct safetensors *file = NULL;
    struct safetensors_tensor tensor;
    unsigned char bytes[512], raw[2];
    float values[4];
    (void)state;
    scratch_open(&scratch);
    scratch_write(&scratch, "x.safetensors", bytes, small_file(bytes));
    assert_int_equal(safetensors_open(AT_FDCWD, scratch.path, &file, &error), STATUS_OK);
    assert_int_equal(safetensors_count(file), 3);
    assert_int_equal(safetensors_find(file, "a"), 0);
    assert_int_equal(safetensors_find(file, "c"), 2);
    assert_int_equal(safetensors_find(file, "ab"), -1);
    assert_int_equal(safetensors_find(file, ""), -1);
    safetensors_tensor(file, 0, &tensor);
    assert_string_equal(tensor.name, "a");
    assert_true(tensor.dtype == DTYPE_BF16 && tensor.rank == 2 && tensor.shape[0] == 2 && tensor.shape[1] == 2);
    assert_true(tensor.elements == 4 && tensor.bytes == 8);
    assert_int_equal(safetensors_read_f32(file, 0, 0, 4, values, &error), STATUS_OK);
    assert_true(values[0] == 1 && values[1] == 2 && values[2] == -1 && isnan(values[3]));
    assert_int_equal(safetensors_read_f32(file, 0, 1, 2, values, &error), STATUS_OK);
    assert_true(values[0] == 2 && values[1] == -1);
    assert_int_equal(safetensors_read_f32(file, 1, 0, 1, values, &error), STATUS_OK);
    assert_true(values[0] == 3);
    assert_int_equal(safetensors_read_f32(file, 0, 2, 3, values, &error), STATUS_INVALID);
    assert_int_equal(safetensors_read_f32(file, 0, -1, 1, values, &error), STATUS_INVALID);
    assert_int_equal(safetensors_read_f32(file, 0, INT64_MAX, INT64_MAX, values, &error), STATUS_INVALID);
    assert_int_equal(safetensors_read_f32(file, 2, 0, 2, values, &error), STATUS_UNSUPPORTED);
    assert_int_equal(safetensors_read_bytes(file, 2, 0, 2, raw, &error), STATUS_OK);
    assert_true(raw[0] == 1 && raw[1] == 0);
    safetensors_readahead(file, 0);
    safetensors_close(file);
    scratch_close(&scratch);
}

static void test_booleans_are_0_or_1(void **state)
{
    struct scratch scratch;
    struct error error;
    struct safetensors *file = NULL;
    unsigned char bytes[512], raw[2];
    (void)state;
    scratch_open(&scratch);
    const size_t size = small_file(bytes);
    bytes[size - 1] = 7;
    scratch_write(&scratch, "x.safetensors", bytes, size);
    assert_int_equal(safetensors_open(AT_FDCWD, scratch.path, &file, &error), STATUS_OK);
    assert_int_equal(safetensors_read_bytes(file, 2, 0, 1, raw, &error), STATUS_OK);
    assert_int_equal(safetensors_read_bytes(file, 2, 0, 2, raw, &error), STATUS_CORRUPT);
    safetensors_close(file);
    scratch_close(&scratch);
}

static void test_100000_tensors_open_and_are_found(void **state)
{
    enum { COUNT = 100000, ENTRY = 80 };
    struct scratch scratch;
    struct error error;
    struct safetensors *file = NULL;
    char name[32];
    char *bytes = malloc(COUNT * ENTRY + 16);
    (void)state;
    assert_non_null(bytes);
    scratch_open(&scratch);
    uint64_t size = 8;
    for (int i = 0; i < COUNT; i++)
        size +=
            (uint64_t)snprintf(bytes + size, ENTRY, "%c\"t%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                               i ? ',' : '{', (i * 7919) % COUNT);
    bytes[size++] = '}';
    const uint64_t length = size - 8;
    memcpy(bytes, &length, 8);
    scratch_write(&scratch, "x.safetensors", bytes, size);
    assert_int_equal(safetensors_open(AT_FDCWD, scratch.path, &file, &error), STATUS_OK);
    assert_int_equal(safetensors_count(file), COUNT);
    for (int i = 0; i < COUNT; i++) {
        struct safetensors_tensor tensor;
        (void)snprintf(name, sizeof name, "t%d", i);
        const int64_t index = safetensors_find(file, name);
        assert_true(index >= 0);
        safetensors_tensor(file, index, &tensor);
        assert_string_equal(tensor.name, name);
    }
    safetensors_close(file);
    free(bytes);
    scratch_close(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_are_held_to_every_rule),
        cmocka_unit_test(test_a_shape_of_200_dimensions_is_refused),
        cmocka_unit_test(test_deep_nesting_is_refused_at_once),
        cmocka_unit_test(test_a_file_cut_anywhere_is_corrupt),
        cmocka_unit_test(test_lying_header_lengths_are_refused),
        cmocka_unit_test(test_tensors_are_found_and_read),
        cmocka_unit_test(test_booleans_are_0_or_1),
        cmocka_unit_test(test_100000_tensors_open_and_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
