/* Exports of runs that are killed, at every block and between what is kept at its end: the files have the bytes of an
 * undisturbed run's, and what was done is not done again. */
#include "engine/jobs/tiny_model.h"
#include "jobs/export/export.h"
#include "jobs/quantize/quantize.h"

#include <signal.h>
#include <sys/wait.h>

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 50, \"hidden_size\": 64, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 4,"
    " \"num_hidden_layers\": 3, \"intermediate_size\": 96, \"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-6,"
    " \"rope_theta\": 10000.0,"
    " \"max_position_embeddings\": 24, \"tie_word_embeddings\": true, \"attention_bias\": true, \"mlp_bias\": true,"
    " \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0,"
    " \"high_freq_factor\": 4.0,"
    " \"original_max_position_embeddings\": 16}}";

enum { LAYERS = 3, LENGTH = 24, FILES = 16 };
enum moment { NEVER, BLOCK_DONE, FILES_KEPT, FINISHED }; /* when a process is killed */

struct fixture {
    struct scratch checkpoint, kept;
    struct quantize_method method;
    int format;
    const char *name; /* of the weights */
};

/* An attempt in a process. */
struct attempt {
    const struct fixture *fixture;
    struct export_job *job;
    enum moment moment;
    int64_t kill_at, kept, went_on, written;
    struct sequential_hook hook;
    struct quantize_saver saver;
};

static void ok(enum status status, const struct error *error)
{
    if (status != STATUS_OK) fail_msg("%s", error->detail);
}

static void progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    const struct attempt *attempt = owner;
    (void)total, (void)unit;
    if (attempt->moment == BLOCK_DONE && done == attempt->kill_at) (void)raise(SIGKILL);
}

static void say(void *owner, const char *line)
{
    struct attempt *attempt = owner;
    long long layer;
    if (sscanf(line, "goes on behind block %lld", &layer) == 1) attempt->went_on = layer;
}

static enum status layer(void *owner, const char *name, const struct quantized_layer *quantized, struct matrix weight,
                         struct error *error)
{
    struct attempt *attempt = owner;
    attempt->written++;
    return attempt->hook.layer(attempt->hook.owner, name, quantized, weight, error);
}

static bool begin(void *owner, int64_t block)
{
    const struct attempt *attempt = owner;
    return attempt->saver.begin(attempt->saver.owner, block);
}

/* The files of a block are durable, the streams behind it not yet. */
static enum status keep(void *owner, struct error *error)
{
    struct attempt *attempt = owner;
    const enum status status = attempt->saver.save(attempt->saver.owner, error);
    if (attempt->moment == FILES_KEPT && ++attempt->kept == attempt->kill_at) (void)raise(SIGKILL);
    return status;
}

static void path_of(const struct fixture *f, const char *name, char out[512])
{
    (void)snprintf(out, 512, "%s/%s", f->kept.directory, name);
}

static void attempt_run(struct attempt *attempt)
{
    const struct fixture *f = attempt->fixture;
    struct team *team;
    struct backend *backend;
    struct model *model;
    struct error error;
    struct quantize_result result;
    int64_t starts[] = {0, LENGTH};
    uint32_t tokens[LENGTH];
    char directory[512], streams[512];
    for (int i = 0; i < LENGTH; i++) tokens[i] = (uint32_t)random_below(1, 0, (uint64_t)i, 50);
    const struct sequences data = {1, starts, tokens};
    const struct monitor monitor = {.owner = attempt, .progress = progress, .log = say};
    path_of(f, "export", directory);
    path_of(f, "streams", streams);
    ok(team_new(2, &team, &error), &error);
    ok(backend_cpu_new(team, &backend, &error), &error);
    ok(model_open(f->checkpoint.directory, &model, &error), &error);
    ok(export_open(f->format, &f->method, model, directory, &attempt->job, &error), &error);
    attempt->hook = export_hook(attempt->job, backend);
    attempt->saver = export_saver(attempt->job);
    const struct quantize_request request = {
        .model = model,
        .backend = backend,
        .method = f->method,
        .calibration = &data,
        .evaluation = &data,
        .monitor = &monitor,
        .save_path = streams,
        .save_seconds = -1,
        .hook = {attempt, layer},
        .saver = {attempt, begin, keep},
    };
    ok(quantize_run(&request, &result, &error), &error);
    ok(export_finish(attempt->job, NULL, &error), &error);
    if (attempt->moment == FINISHED) (void)raise(SIGKILL);
    quantize_result_reset(&result);
    export_close(attempt->job);
    model_close(model);
    backend_free(backend);
    team_free(team);
}

static void run_killed(const struct fixture *f, enum moment moment, int64_t kill_at)
{
    int how = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct attempt attempt = {.fixture = f, .moment = moment, .kill_at = kill_at};
        attempt_run(&attempt);
        _exit(3);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

static struct attempt run_to_the_end(const struct fixture *f)
{
    struct attempt attempt = {.fixture = f, .moment = NEVER};
    attempt_run(&attempt);
    return attempt;
}

struct file {
    char name[64];
    size_t size;
    unsigned char *bytes;
};

/* What an export consists of, by name; hidden files are no part of it. */
static int files_take(const struct fixture *f, struct file files[FILES])
{
    char directory[512], path[640];
    int count = 0;
    struct dirent **entries = NULL;
    path_of(f, "export", directory);
    const int found = scandir(directory, &entries, NULL, alphasort);
    for (int i = 0; i < found; i++) {
        if (entries[i]->d_name[0] != '.') {
            struct file *file = &files[count++];
            assert_true(count < FILES);
            (void)snprintf(file->name, sizeof file->name, "%.63s", entries[i]->d_name);
            (void)snprintf(path, sizeof path, "%s/%s", directory, file->name);
            FILE *stream = fopen(path, "rb");
            assert_non_null(stream);
            file->bytes = malloc(1 << 20);
            file->size = fread(file->bytes, 1, 1 << 20, stream);
            (void)fclose(stream);
        }
        free(entries[i]);
    }
    free(entries);
    assert_true(count >= 2);
    return count;
}

static void assert_same_files(const struct fixture *f, const struct file *expected, int count)
{
    struct file files[FILES];
    assert_int_equal(files_take(f, files), count);
    for (int i = 0; i < count; i++) {
        assert_string_equal(files[i].name, expected[i].name);
        assert_int_equal(files[i].size, expected[i].size);
        assert_memory_equal(files[i].bytes, expected[i].bytes, files[i].size);
        free(files[i].bytes);
    }
}

static void clean(struct fixture *f)
{
    char directory[512];
    path_of(f, "export", directory);
    export_remove(directory);
    (void)scratch_entries(&f->kept, 1);
}

static void open_fixture(struct fixture *f, const char *config, int format, struct quantize_method method,
                         const char *name)
{
    struct error error;
    *f = (struct fixture){.method = method, .format = format, .name = name};
    ok(quantize_method_complete(&f->method, &error), &error);
    tiny_write(&f->checkpoint, config, (struct tiny_change){0});
    scratch_open(&f->kept);
}

static void close_fixture(struct fixture *f)
{
    clean(f);
    scratch_close(&f->checkpoint);
    scratch_close(&f->kept);
}

static void check(const char *config, int format, struct quantize_method method, int64_t linears)
{
    struct fixture f;
    struct file expected[FILES];
    open_fixture(&f, config, format, method, "");
    assert_int_equal(run_to_the_end(&f).written, LAYERS * linears);
    const int count = files_take(&f, expected);
    clean(&f);
    for (int64_t block = 1; block <= LAYERS + 1; block++) run_killed(&f, BLOCK_DONE, block); /* one after another */
    run_killed(&f, FINISHED, 0);
    assert_int_equal(run_to_the_end(&f).written, 0);
    assert_same_files(&f, expected, count);
    clean(&f);
    for (enum moment moment = BLOCK_DONE; moment <= FILES_KEPT; moment++) {
        for (int64_t block = 1; block <= LAYERS; block++) {
            run_killed(&f, moment, block);
            const struct attempt last = run_to_the_end(&f);
            assert_int_equal(last.went_on, block - 1);
            assert_int_equal(last.written, (LAYERS - block + 1) * linears);
            assert_same_files(&f, expected, count);
            clean(&f);
        }
    }
    for (int i = 0; i < count; i++) free(expected[i].bytes);
    close_fixture(&f);
}

static const struct quantize_override skip_keys = {.pattern = "layers.1.*self_attn", .skip = true};

static void test_killed_at_every_block_an_export_has_the_same_bytes(void **state)
{
    const struct quantize_method gptq = {.quantizer = QUANTIZER_GPTQ, .gptq = {4, 32, true, false, true, 0.05}};
    const struct quantize_method awq = {.quantizer = QUANTIZER_AWQ,
                                        .awq = {.bits = 4, .group_size = 32, .grid_points = 4},
                                        .options = {.override_count = 1, .overrides = &skip_keys}};
    (void)state;
    check(llama, EXPORT_GPTQ, gptq, 7);
    check(llama, EXPORT_DEQUANTIZED, gptq, 7);
    check(llama, EXPORT_GGUF, awq, 7); /* its scales go into norms and biases, some block by block */
}

/* Flips a byte in the middle of a file. */
static void damage(struct fixture *f, const char *name)
{
    char path[512], whole[256];
    unsigned char byte;
    (void)snprintf(whole, sizeof whole, "export/%s", name);
    path_of(f, whole, path);
    const int descriptor = open(path, O_RDWR | O_CLOEXEC);
    assert_true(descriptor >= 0);
    const off_t at = lseek(descriptor, 0, SEEK_END) / 2;
    assert_int_equal(pread(descriptor, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(descriptor, &byte, 1, at), 1);
    (void)close(descriptor);
}

static void test_what_was_damaged_meanwhile_is_made_again(void **state)
{
    static const char *const names[] = {".deltaq-model.safetensors.part", ".deltaq-model.safetensors.places"};
    const struct quantize_method method = {.quantizer = QUANTIZER_RTN, .rtn = {4, 32, true}};
    struct fixture f;
    struct file expected[FILES];
    (void)state;
    open_fixture(&f, llama, EXPORT_COMPRESSED_TENSORS, method, "");
    (void)run_to_the_end(&f);
    const int count = files_take(&f, expected);
    clean(&f);
    for (int how = 0; how < 3; how++) {
        run_killed(&f, BLOCK_DONE, LAYERS + 1); /* all layers are there */
        char path[512];
        path_of(&f, "export/.deltaq-model.safetensors.part", path);
        if (how < 2) damage(&f, names[how]);
        if (how == 2) assert_int_equal(truncate(path, 1000), 0);
        assert_int_equal(run_to_the_end(&f).written, LAYERS * 7);
        assert_same_files(&f, expected, count);
        clean(&f);
    }
    for (int i = 0; i < count; i++) free(expected[i].bytes);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_at_every_block_an_export_has_the_same_bytes),
        cmocka_unit_test(test_what_was_damaged_meanwhile_is_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
