/* GGUF: what a sound file says, and every rule of its header with a file that breaks only it. */
#include "engine/files/scratch.h"
#include "engine/formats/gguf/gguf_bytes.h"

#include "formats/gguf/gguf_split.h"
#include "model/architecture.h"
#include "weights/weights.h"

/* Q: [8, 32] in Q8_0, two heads of four rows, row r filled with r + 1; an embedding [3, 32] in F32; alignment 32. */
static void build(struct gguf_bytes *to)
{
    memset(to, 0, sizeof *to);
    memcpy(to->bytes, "GGUF", 4);
    to->size = 4;
    mark(to, VERSION);
    put(to, 3, 4);
    mark(to, TENSORS);
    put(to, 2, 8);
    mark(to, ENTRIES);
    put(to, 10, 8);
    mark(to, KEY_SIZE);
    to->marks[KEY_BYTE] = to->size + 8;
    text(to, "general.alignment");
    mark(to, VALUE_TYPE);
    put(to, 4, 4);
    mark(to, ALIGNMENT);
    put(to, 32, 4);
    text(to, "general.architecture");
    put(to, 8, 4);
    mark(to, TEXT_SIZE);
    to->marks[TEXT_BYTE] = to->size + 8;
    text(to, "llama");
    text(to, "tokenizer.ggml.tokens");
    put(to, 9, 4);
    mark(to, ARRAY_TYPE);
    put(to, 8, 4);
    mark(to, ARRAY_COUNT);
    put(to, 2, 8);
    mark(to, ARRAY_TEXT);
    text(to, "a");
    text(to, "bc");
    text(to, "tokenizer.ggml.add_bos_token");
    put(to, 7, 4);
    mark(to, TRUTH);
    put(to, 1, 1);
    number(to, "llama.embedding_length", 8);
    text(to, "llama.attention.head_count");
    put(to, 4, 4);
    mark(to, HEADS);
    put(to, 2, 4);
    number(to, "llama.context_length", 64);
    number(to, "llama.block_count", 1);
    real(to, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    real(to, "llama.rope.freq_base", 500000);
    mark(to, SECOND_NAME);
    tensor(to, "token_embd.weight", 32, 3, 0, 288);
    to->marks[SECOND_OFFSET] = to->marks[OFFSET];
    mark(to, NAME_SIZE);
    to->marks[NAME_BYTE] = to->size + 8;
    tensor(to, "blk.0.attn_q.weight", 32, 8, 8, 0);
    while (to->size % 32 != 0) put(to, 0, 1);
    for (int r = 0; r < 8; r++) {
        put(to, 0x3c00, 2); /* scale 1 */
        for (int i = 0; i < 32; i++) put(to, (uint64_t)r + 1, 1);
    }
    for (int r = 8 * 34; r < 288; r++) put(to, 0, 1);
    for (int i = 0; i < 96; i++) put(to, 0x3f800000, 4);
}

static enum status open_bytes(const struct gguf_bytes *file, struct weights **out, struct error *error)
{
    struct scratch scratch;
    scratch_open(&scratch);
    scratch_write(&scratch, "x.gguf", file->bytes, file->size);
    const enum status status = weights_open(scratch_path(&scratch, "x.gguf"), out, error);
    if (status != STATUS_OK) assert_null(strstr(error->detail, scratch.directory));
    scratch_close(&scratch);
    return status;
}

static void test_a_sound_file_is_a_checkpoint_in_our_names(void **state)
{
    /* Rows of a head lie as 0, 2, 1, 3: rotated pairs are neighbours in the file. */
    static const float rows[8] = {1, 3, 2, 4, 5, 7, 6, 8};
    struct gguf_bytes *file = malloc(sizeof *file);
    struct weights *weights = NULL;
    struct weights_tensor found;
    struct error error;
    float values[8 * 32];
    bool mixed;
    (void)state;
    assert_non_null(file);
    build(file);
    if (open_bytes(file, &weights, &error) != STATUS_OK) fail_msg("%s", error.detail);
    assert_int_equal(weights_count(weights), 2);
    const int64_t query = weights_find(weights, "model.layers.0.self_attn.q_proj.weight");
    assert_int_equal(query, 1 - weights_find(weights, "model.embed_tokens.weight"));
    weights_tensor(weights, query, &found);
    assert_true(found.dtype == DTYPE_Q8_0 && found.rank == 2 && found.shape[0] == 8 && found.shape[1] == 32 &&
                found.bytes == 8 * 34);
    assert_int_equal(weights_dtype(weights, &mixed), DTYPE_Q8_0);
    assert_true(mixed);
    assert_int_equal(weights_read_f32(weights, query, 0, 256, values, &error), STATUS_OK);
    for (int i = 0; i < 256; i++) assert_true(values[i] == rows[i / 32]);
    for (int first = 0; first < 256; first += 7) { /* spans that cut blocks and rows */
        const int count = 256 - first < 45 ? 256 - first : 45;
        assert_int_equal(weights_read_f32(weights, query, first, count, values, &error), STATUS_OK);
        for (int i = 0; i < count; i++) assert_true(values[i] == rows[(first + i) / 32]);
    }
    assert_int_equal(weights_read_f32(weights, query, 200, 57, values, &error), STATUS_INVALID);
    assert_string_equal(
        weights_config(weights),
        "{\"model_type\": \"llama\", \"vocab_size\": 3, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 2, \"head_dim\": 4, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-05, "
        "\"rope_theta\": 500000, \"tie_word_embeddings\": true, \"pad_token_id\": null}");
    weights_close(weights);
    free(file);
}

static const struct {
    const char *what;
    enum mark at;
    int width;
    uint64_t value;
    enum status status;
    const char *detail;
} wrong[] = {
    {"version 1", VERSION, 4, 1, STATUS_UNSUPPORTED, "version 1"},
    {"version 4", VERSION, 4, 4, STATUS_UNSUPPORTED, "version 4"},
    {"big endian", VERSION, 4, 0x03000000, STATUS_UNSUPPORTED, "big endian"},
    {"2^64 - 1 tensors", TENSORS, 8, UINT64_MAX, STATUS_CORRUPT, "at most 65536"},
    {"65537 values", ENTRIES, 8, 65537, STATUS_CORRUPT, "at most 65536"},
    {"a value too many", ENTRIES, 8, 11, STATUS_CORRUPT, NULL},
    {"a value too few", ENTRIES, 8, 9, STATUS_CORRUPT, NULL},
    {"a tensor too many", TENSORS, 8, 3, STATUS_CORRUPT, NULL},
    {"an empty key", KEY_SIZE, 8, 0, STATUS_CORRUPT, "empty or too long"},
    {"a key of 65536 bytes", KEY_SIZE, 8, 65536, STATUS_CORRUPT, "empty or too long"},
    {"a key of 2^63", KEY_SIZE, 8, UINT64_C(1) << 63, STATUS_CORRUPT, "empty or too long"},
    {"a key with NUL", KEY_BYTE, 1, 0, STATUS_CORRUPT, "printable"},
    {"a value of type 13", VALUE_TYPE, 4, 13, STATUS_CORRUPT, "unknown type"},
    {"an alignment that is signed", VALUE_TYPE, 4, 5, STATUS_CORRUPT, "general.alignment"},
    {"alignment 0", ALIGNMENT, 4, 0, STATUS_CORRUPT, "general.alignment"},
    {"alignment 24", ALIGNMENT, 4, 24, STATUS_CORRUPT, "general.alignment"},
    {"alignment 2^31", ALIGNMENT, 4, UINT32_C(1) << 31, STATUS_CORRUPT, "general.alignment"},
    {"a larger alignment than the file has", ALIGNMENT, 4, 1 << 20, STATUS_CORRUPT, NULL},
    {"a text of 2^64 - 1", TEXT_SIZE, 8, UINT64_MAX, STATUS_CORRUPT, "64 MiB"},
    {"a text beyond the end", TEXT_SIZE, 8, 5000, STATUS_CORRUPT, "ends early"},
    {"another architecture", TEXT_BYTE, 1, 'x', STATUS_UNSUPPORTED, "\"xlama\""},
    {"an architecture with NUL", TEXT_BYTE, 1, 0, STATUS_UNSUPPORTED, "is not read from GGUF"},
    {"an array of arrays", ARRAY_TYPE, 4, 9, STATUS_CORRUPT, "array of arrays"},
    {"an array of type 99", ARRAY_TYPE, 4, 99, STATUS_CORRUPT, "unknown type"},
    {"an array of other items", ARRAY_TYPE, 4, 11, STATUS_CORRUPT, NULL},
    {"an array of 2^61", ARRAY_COUNT, 8, UINT64_C(1) << 61, STATUS_CORRUPT, "longer than the file"},
    {"an array of 2^64 - 1", ARRAY_COUNT, 8, UINT64_MAX, STATUS_CORRUPT, "longer than the file"},
    {"an array's text of 2^63", ARRAY_TEXT, 8, UINT64_C(1) << 63, STATUS_CORRUPT, "64 MiB"},
    {"a truth of 2", TRUTH, 1, 2, STATUS_CORRUPT, "neither 0 nor 1"},
    {"no heads", HEADS, 4, 0, STATUS_INVALID, "whole number of heads"},
    {"heads that do not divide", HEADS, 4, 3, STATUS_INVALID, NULL},
    {"an empty name", NAME_SIZE, 8, 0, STATUS_CORRUPT, "empty or too long"},
    {"a name of 256", NAME_SIZE, 8, 256, STATUS_CORRUPT, "empty or too long"},
    {"a name that is no tensor of ours", NAME_BYTE, 1, 'x', STATUS_UNSUPPORTED, "no counterpart"},
    {"a name with an escape", NAME_BYTE, 1, 27, STATUS_CORRUPT, "printable"},
    {"no dimensions", RANK, 4, 0, STATUS_CORRUPT, "1 to 4 dimensions"},
    {"five dimensions", RANK, 4, 5, STATUS_CORRUPT, "1 to 4 dimensions"},
    {"2^32 - 1 dimensions", RANK, 4, UINT32_MAX, STATUS_CORRUPT, "1 to 4 dimensions"},
    {"a dimension of 0", COLUMN, 8, 0, STATUS_CORRUPT, "impossible shape"},
    {"a dimension of 2^63", COLUMN, 8, UINT64_C(1) << 63, STATUS_CORRUPT, "impossible shape"},
    {"a dimension of 2^47", COLUMN, 8, UINT64_C(1) << 47, STATUS_CORRUPT, "beyond the end"},
    {"a row of half a block", ROW, 8, 48, STATUS_CORRUPT, "whole number of blocks"},
    {"a row more than the file", COLUMN, 8, 1 << 20, STATUS_CORRUPT, "beyond the end"},
    {"a type that was removed", TYPE, 4, 4, STATUS_CORRUPT, "does not exist"},
    {"type 2^32 - 1", TYPE, 4, UINT32_MAX, STATUS_CORRUPT, "does not exist"},
    {"Q5_K", TYPE, 4, 13, STATUS_UNSUPPORTED, "is Q5_K"},
    {"IQ2_XXS", TYPE, 4, 16, STATUS_UNSUPPORTED, "is IQ2_XXS"},
    {"an offset that is not aligned", OFFSET, 8, 16, STATUS_CORRUPT, "not aligned"},
    {"an offset beyond the end", OFFSET, 8, 1 << 20, STATUS_CORRUPT, "beyond the end"},
    {"an offset that wraps around", OFFSET, 8, UINT64_MAX - 31, STATUS_CORRUPT, "larger than any file"},
    {"overlapping tensors", SECOND_OFFSET, 8, 256, STATUS_CORRUPT, "overlaps"},
    {"the same place twice", SECOND_OFFSET, 8, 0, STATUS_CORRUPT, "overlaps"},
};

static void test_headers_are_held_to_every_rule(void **state)
{
    struct gguf_bytes *file = malloc(sizeof *file);
    struct weights *weights = NULL;
    (void)state;
    assert_non_null(file);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct error error = {.detail = ""};
        build(file);
        for (int byte = 0; byte < wrong[i].width; byte++)
            file->bytes[file->marks[wrong[i].at] + (size_t)byte] = (uint8_t)(wrong[i].value >> 8 * byte);
        const enum status status = open_bytes(file, &weights, &error);
        if (status != wrong[i].status || (wrong[i].detail != NULL && strstr(error.detail, wrong[i].detail) == NULL))
            fail_msg("%s: %s: %s", wrong[i].what, status_info(status)->name, error.detail);
        assert_null(weights);
    }
    free(file);
}

static void test_a_file_cut_anywhere_is_refused(void **state)
{
    struct gguf_bytes *file = malloc(sizeof *file);
    struct weights *weights = NULL;
    struct error error;
    (void)state;
    assert_non_null(file);
    build(file);
    for (size_t whole = file->size, size = 0; size < whole; size += 1 + size % 5) {
        file->size = size;
        assert_int_equal(open_bytes(file, &weights, &error), STATUS_CORRUPT);
    }
    free(file);
}

static void test_names_and_keys_are_there_once(void **state)
{
    struct gguf_bytes *file = malloc(sizeof *file);
    struct weights *weights = NULL;
    struct error error;
    (void)state;
    assert_non_null(file);
    build(file);
    file->size = file->marks[SECOND_NAME];
    tensor(file, "token_embd.weight", 32, 3, 0, 288);
    tensor(file, "token_embd.weight", 32, 2, 0, 0);
    while (file->size < 4096) put(file, 0, 1);
    assert_int_equal(open_bytes(file, &weights, &error), STATUS_CORRUPT);
    assert_non_null(strstr(error.detail, "is there twice"));
    build(file);
    memcpy(file->bytes + file->marks[HEADS] - 4 - strlen("llama.attention.head_count"), "llama.attention.head_counx",
           26);
    assert_int_equal(open_bytes(file, &weights, &error), STATUS_INVALID);
    memset(file, 0, sizeof *file);
    memcpy(file->bytes, "GGUF", 4);
    file->size = 4;
    put(file, 3, 4);
    put(file, 0, 8);
    put(file, 2, 8);
    number(file, "a", 1);
    number(file, "a", 2);
    assert_int_equal(open_bytes(file, &weights, &error), STATUS_CORRUPT);
    assert_non_null(strstr(error.detail, "\"a\" is given twice"));
    free(file);
}

/* olmoe: two experts of two rows in one tensor, F32, value 100 e + 10 r + c. */
static void build_experts(struct gguf_bytes *to, uint32_t said)
{
    memset(to, 0, sizeof *to);
    memcpy(to->bytes, "GGUF", 4);
    to->size = 4;
    put(to, 3, 4);
    put(to, 1, 8);
    put(to, 3, 8);
    text(to, "general.architecture");
    put(to, 8, 4);
    text(to, "olmoe");
    number(to, "olmoe.expert_count", said);
    number(to, "olmoe.expert_used_count", 1);
    text(to, "blk.3.ffn_up_exps.weight");
    put(to, 3, 4);
    put(to, 4, 8);
    put(to, 2, 8);
    put(to, 2, 8);
    put(to, 0, 4);
    put(to, 0, 8);
    while (to->size % 32 != 0) put(to, 0, 1);
    for (int i = 0; i < 16; i++) {
        const float value = (float)(100 * (i / 8) + 10 * (i / 4 % 2) + i % 4);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        put(to, bits, 4);
    }
}

static void test_the_experts_of_a_layer_are_tensors_of_their_own(void **state)
{
    struct gguf_bytes *file = malloc(sizeof *file);
    struct weights *weights = NULL;
    struct weights_tensor found;
    struct error error;
    float values[8];
    (void)state;
    assert_non_null(file);
    build_experts(file, 2);
    if (open_bytes(file, &weights, &error) != STATUS_OK) fail_msg("%s", error.detail);
    assert_int_equal(weights_count(weights), 2);
    assert_non_null(
        strstr(weights_config(weights), "\"num_experts\": 2, \"num_experts_per_tok\": 1, \"norm_topk_prob\": false"));
    for (int expert = 0; expert < 2; expert++) {
        const int64_t at = weights_find(weights, expert == 0 ? "model.layers.3.mlp.experts.0.up_proj.weight"
                                                             : "model.layers.3.mlp.experts.1.up_proj.weight");
        assert_true(at >= 0);
        weights_tensor(weights, at, &found);
        assert_true(found.rank == 2 && found.shape[0] == 2 && found.shape[1] == 4 && found.elements == 8 &&
                    found.bytes == 32);
        assert_int_equal(weights_read_f32(weights, at, 0, 8, values, &error), STATUS_OK);
        for (int i = 0; i < 8; i++) assert_true(values[i] == (float)(100 * expert + 10 * (i / 4) + i % 4));
        assert_int_equal(weights_read_f32(weights, at, 1, 8, values, &error), STATUS_INVALID);
    }
    weights_close(weights);
    build_experts(file, 3);
    assert_int_equal(open_bytes(file, &weights, &error), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "is not one of 3 experts"));
    free(file);
}

/* A llama with a window is a mistral; of llama3's scaling the file holds what each frequency is divided by: computed
 * apart from the engine for base 500000, 16 columns, factor 8, original length 64. */
static void test_windows_and_scaled_rotations_are_told(void **state)
{
    static const float divisors[] = {1, 2.4422593f, 8, 8, 8, 8, 8, 8};
    struct gguf_bytes *file = calloc(1, sizeof *file);
    struct weights *weights = NULL;
    struct error error;
    (void)state;
    assert_non_null(file);
    memcpy(file->bytes, "GGUF", 4);
    file->size = 4;
    put(file, 3, 4);
    put(file, 2, 8);
    put(file, 5, 8);
    text(file, "general.architecture");
    put(file, 8, 4);
    text(file, "llama");
    number(file, "llama.embedding_length", 32);
    number(file, "llama.attention.head_count", 2);
    number(file, "llama.attention.sliding_window", 7);
    real(file, "llama.rope.freq_base", 500000);
    tensor(file, "token_embd.weight", 32, 1, 0, 32);
    tensor(file, "rope_freqs.weight", 8, 0, 0, 0);
    while (file->size % 32 != 0) put(file, 0, 1);
    for (int i = 0; i < 8; i++) {
        uint32_t bits;
        memcpy(&bits, &divisors[i], sizeof bits);
        put(file, bits, 4);
    }
    for (int i = 0; i < 32; i++) put(file, 0, 4);
    if (open_bytes(file, &weights, &error) != STATUS_OK) fail_msg("%s", error.detail);
    assert_string_equal(
        weights_config(weights),
        "{\"model_type\": \"mistral\", \"vocab_size\": 1, \"hidden_size\": 32, \"num_attention_heads\": 2, "
        "\"head_dim\": 16, \"rope_theta\": 500000, \"sliding_window\": 7, \"use_sliding_window\": true, "
        "\"tie_word_embeddings\": true, \"pad_token_id\": null, "
        "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
        "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64}}");
    weights_close(weights);
    free(file);
}

/* A file of that architecture with nothing in it but a window, or which layers have one. */
static void build_window(struct gguf_bytes *to, const char *architecture, int64_t window, bool pattern)
{
    char key[80];
    memset(to, 0, sizeof *to);
    memcpy(to->bytes, "GGUF", 4);
    to->size = 4;
    put(to, 3, 4);
    put(to, 1, 8);
    put(to, pattern ? 3 : 2, 8);
    text(to, "general.architecture");
    put(to, 8, 4);
    text(to, architecture);
    (void)snprintf(key, sizeof key, "%s.attention.sliding_window", architecture);
    number(to, key, (uint32_t)window);
    if (pattern) { /* an array of truths */
        (void)snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", architecture);
        text(to, key);
        put(to, 9, 4);
        put(to, 7, 4);
        put(to, 4, 8);
        put(to, 0x00010101, 4);
    }
    tensor(to, "token_embd.weight", 32, 1, 0, 0);
    while (to->size % 32 != 0) put(to, 0, 1);
    for (int i = 0; i < 32; i++) put(to, 0, 4);
}

/* OLMo 3 is stored as olmo2 with both keys. What has a window is what the rows of architectures say. */
static void test_a_window_that_the_architecture_lacks_is_refused(void **state)
{
    static const char *const names[] = {"llama", "qwen2", "qwen3", "olmo2", "smollm3", "olmoe"};
    struct gguf_bytes *file = malloc(sizeof *file);
    (void)state;
    assert_non_null(file);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const bool mistral = strcmp(names[i], "llama") == 0;
        const struct architecture *row = architecture_find(mistral ? "mistral" : names[i]);
        assert_non_null(row);
        for (int with = 0; with < 4; with++) {
            struct weights *weights = NULL;
            struct error error;
            build_window(file, names[i], with % 2 * 7, with / 2 > 0);
            const bool refused = with > 0 && row->window == WINDOW_NEVER;
            assert_int_equal(open_bytes(file, &weights, &error), refused ? STATUS_UNSUPPORTED : STATUS_OK);
            if (refused) assert_non_null(strstr(error.detail, "sliding window"));
            weights_close(weights);
        }
    }
    free(file);
}

static void test_parts_are_told_by_their_names(void **state)
{
    char name[64];
    int part, count;
    (void)state;
    assert_true(gguf_split_read("d/x-00002-of-00010.gguf", &part, &count) && part == 2 && count == 10);
    assert_true(gguf_split_name("d/x-00002-of-00010.gguf", 7, name, sizeof name));
    assert_string_equal(name, "d/x-00007-of-00010.gguf");
    assert_false(gguf_split_name("d/x-00002-of-00010.gguf", 7, name, 10));
    static const char *const others[] = {"-00001-of-00002.gguf",
                                         "x-0001-of-0002.gguf",
                                         "x-00003-of-00002.gguf",
                                         "x-00000-of-00002.gguf",
                                         "x-00001-of-00002.ggufx",
                                         "x-00001of--00002.gguf",
                                         "x-0000a-of-00002.gguf",
                                         "x.gguf",
                                         "",
                                         "x-00001-of-00002.gguf.x",
                                         "x_00001-of-00002.gguf"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(gguf_split_read(others[i], &part, &count));
    assert_true(weights_file_is_whole("x-00001-of-00002.gguf") && !weights_file_is_whole("x-00002-of-00002.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sound_file_is_a_checkpoint_in_our_names),
        cmocka_unit_test(test_headers_are_held_to_every_rule),
        cmocka_unit_test(test_a_file_cut_anywhere_is_refused),
        cmocka_unit_test(test_names_and_keys_are_there_once),
        cmocka_unit_test(test_the_experts_of_a_layer_are_tensors_of_their_own),
        cmocka_unit_test(test_windows_and_scaled_rotations_are_told),
        cmocka_unit_test(test_a_window_that_the_architecture_lacks_is_refused),
        cmocka_unit_test(test_parts_are_told_by_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
