/* What is open is judged, not only its name: every reader of files under the guard that `serve` and `worker` set. Each
 * is called with a path that was fine when it was resolved and is exchanged since, which is what a race would give. */
#include "unit.h"

#include "dataset/dataset.h"
#include "files/file.h"
#include "files/file_guard.h"
#include "formats/gguf/gguf.h"
#include "formats/pytorch/torch_file.h"
#include "formats/safetensors/safetensors.h"
#include "inputs/hash.h"
#include "inputs/roots.h"
#include "model/config.h"
#include "tasks/task.h"
#include "tasks/task_set.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_gguf.h"
#include "weights/weights.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* base/in is the root, base/out what nobody may read, base/data the data directory. */
static char base[64];
static const char *paths[2], *secrets[2];
static char root[128], data[128], secret[128];
static struct roots roots = {.paths = paths, .data_directory = data, .secrets = secrets};

static const char *at(const char *rest)
{
    static char made[3][256];
    static int turn;
    turn = (turn + 1) % 3;
    (void)snprintf(made[turn], sizeof made[turn], "%s/%s", base, rest);
    return made[turn];
}

static void make_file(const char *rest)
{
    FILE *file = fopen(at(rest), "w");
    assert_non_null(file);
    assert_true(fprintf(file, "{\"model_type\": \"llama\"}\n") > 0);
    assert_int_equal(fclose(file), 0);
}

static enum status check(const void *context, int directory, const char *path, int descriptor, struct error *error)
{
    return roots_check_open(context, directory, path, descriptor, error);
}

static int setup(void **state)
{
    static const char *const directories[] = {"in",      "in/dir",    "in/blobs",    "in/hidden", "out",
                                              "out/sub", "data",      "data/tmp",    "data/hub",  "data/artifacts",
                                              "data/pg", "elsewhere", "in/writable", "in/model"};
    static const char *const files[] = {"in/dir/file",  "in/blobs/oid",    "in/hidden/key", "out/file",  "out/sub/file",
                                        "data/tmp/own", "data/pg/secrets", "elsewhere/own", "data/mine", "in/renamed"};
    (void)state;
    (void)snprintf(base, sizeof base, "/tmp/deltaq-open-XXXXXX");
    assert_non_null(mkdtemp(base));
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        assert_int_equal(mkdir(at(directories[i]), 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) make_file(files[i]);
    (void)snprintf(root, sizeof root, "%s/in", base);
    (void)snprintf(data, sizeof data, "%s/data", base);
    (void)snprintf(secret, sizeof secret, "%s/in/hidden", base);
    paths[0] = root;
    secrets[0] = secret;
    return 0;
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *walk)
{
    (void)found;
    (void)kind;
    (void)walk;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    return nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- readers, called with the path of a file ---- */

static enum status read_file(const char *path, struct error *error)
{
    struct file *file = NULL;
    const enum status status = file_open(AT_FDCWD, path, FILE_FOLLOW_LINKS, INT64_MAX, &file, error);
    file_close(file);
    return status;
}

static enum status read_dataset(enum dataset_format format, const char *path, struct error *error)
{
    const struct dataset_source source = {.format = format, .path = path, .dtype = DTYPE_U16};
    const struct dataset_use use = {.packing = DATASET_BLOCKS, .sequence_length = 2};
    struct sequences sequences = {0};
    struct tokenizer *tokenizer = NULL;
    enum status status = tokenizer_open_bytes(&tokenizer, error);
    if (status == STATUS_OK) status = dataset_load(&source, &use, tokenizer, NULL, &sequences, error);
    dataset_sequences_free(&sequences);
    tokenizer_close(tokenizer);
    return status;
}

static enum status read_text(const char *path, struct error *error)
{
    return read_dataset(DATASET_TEXT, path, error);
}

static enum status read_jsonl(const char *path, struct error *error)
{
    return read_dataset(DATASET_JSONL, path, error);
}

static enum status read_tokens(const char *path, struct error *error)
{
    return read_dataset(DATASET_TOKENS, path, error);
}

static enum status read_safetensors(const char *path, struct error *error)
{
    struct safetensors *file = NULL;
    const enum status status = safetensors_open(AT_FDCWD, path, &file, error);
    safetensors_close(file);
    return status;
}

static enum status read_gguf(const char *path, struct error *error)
{
    struct gguf *file = NULL;
    const enum status status = gguf_open(AT_FDCWD, path, &file, error);
    gguf_close(file);
    return status;
}

static enum status read_torch(const char *path, struct error *error)
{
    struct torch_file *file = NULL;
    const enum status status = torch_file_open(AT_FDCWD, path, &file, error);
    torch_file_close(file);
    return status;
}

static enum status read_weights(const char *path, struct error *error)
{
    struct weights *weights = NULL;
    const enum status status = weights_open(path, &weights, error);
    weights_close(weights);
    return status;
}

static enum status read_tokenizer(const char *path, struct error *error)
{
    struct tokenizer *tokenizer = NULL;
    const enum status status = tokenizer_open(path, &tokenizer, error);
    tokenizer_close(tokenizer);
    return status;
}

static enum status read_tokenizer_gguf(const char *path, struct error *error)
{
    struct text text = {0};
    const enum status status = tokenizer_gguf_text(path, &text, error);
    text_free(&text);
    return status;
}

static enum status read_task(const char *path, struct error *error)
{
    const struct task_set_source source = {.task = &task_table[0], .path = path};
    struct task_set *set = NULL;
    const enum status status = task_set_open(&source, &set, error);
    task_set_close(set);
    return status;
}

static enum status read_hash(const char *path, struct error *error)
{
    struct hash *hash = NULL;
    enum status status = hash_new(&hash, error);
    if (status == STATUS_OK) status = hash_add_file(hash, path, error);
    hash_free(hash);
    return status;
}

static const struct reader {
    const char *name; /* of the file, which some go by */
    enum status (*read)(const char *path, struct error *error);
} readers[] = {{"bytes", read_file},
               {"text.txt", read_text},
               {"text.jsonl", read_jsonl},
               {"tokens.bin", read_tokens},
               {"tokens.npy", read_tokens},
               {"model.safetensors", read_safetensors},
               {"model.gguf", read_gguf},
               {"model.bin", read_torch},
               {"weights.safetensors", read_weights},
               {"weights.gguf", read_weights},
               {"weights.pt", read_weights},
               {"tokenizer.json", read_tokenizer},
               {"tokenizer.gguf", read_tokenizer_gguf},
               {"task.jsonl", read_task},
               {"hashed", read_hash}};
enum { READERS = sizeof readers / sizeof readers[0] };

static void expect_outside(enum status (*read)(const char *, struct error *), const char *path)
{
    struct error error;
    assert_int_equal(read(path, &error), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "lies outside the server's roots"));
    assert_null(strstr(error.detail, base));
}

/* Anything but a refusal: what is there need not be what the reader wants. */
static void expect_read(enum status (*read)(const char *, struct error *), const char *path)
{
    struct error error = {.detail = ""};
    if (read(path, &error) == STATUS_OK) return;
    assert_null(strstr(error.detail, "roots"));
    assert_null(strstr(error.detail, "for itself"));
    assert_null(strstr(error.detail, "cannot open"));
}

static void test_no_reader_follows_a_link_out_of_the_roots(void **state)
{
    char name[64];
    (void)state;
    for (int i = 0; i < READERS; i++) {
        (void)snprintf(name, sizeof name, "in/writable/%s", readers[i].name);
        make_file(name);
        expect_read(readers[i].read, at(name));
        assert_int_equal(unlink(at(name)), 0); /* exchanged */
        assert_int_equal(symlink(at("out/file"), at(name)), 0);
        expect_outside(readers[i].read, at(name));
        assert_int_equal(unlink(at(name)), 0);
        assert_int_equal(symlink("../blobs/oid", at(name)), 0); /* as in a cache of the hub: it stays inside */
        expect_read(readers[i].read, at(name));
        assert_int_equal(unlink(at(name)), 0);
        assert_int_equal(symlink(at("out/absent"), at(name)), 0); /* whether something is there is not told */
        expect_outside(readers[i].read, at(name));
        assert_int_equal(unlink(at(name)), 0);
    }
}

static void test_no_reader_follows_a_directory_out_of_the_roots(void **state)
{
    char inside[64], outside[64];
    (void)state;
    assert_int_equal(mkdir(at("out/exchanged"), 0700), 0);
    assert_int_equal(symlink(at("out/exchanged"), at("in/exchanged")), 0);
    for (int i = 0; i < READERS; i++) {
        (void)snprintf(inside, sizeof inside, "in/exchanged/%s", readers[i].name);
        (void)snprintf(outside, sizeof outside, "out/exchanged/%s", readers[i].name);
        make_file(outside);
        expect_outside(readers[i].read, at(inside));
    }
}

static enum status read_config(const char *path, struct error *error)
{
    struct model_config config;
    return config_read(path, &config, error);
}

static enum status list_dataset(const char *path, struct error *error)
{
    const struct dataset_source source = {.format = DATASET_TEXT, .path = path};
    struct dataset_files files = {0};
    const enum status status = dataset_files_list(&source, &files, error);
    dataset_files_free(&files);
    return status;
}

static enum status check_links(const char *path, struct error *error)
{
    return roots_check_links(&roots, path, "", error);
}

/* The names of files elsewhere are as little for others as what is in them. */
static void test_no_directory_elsewhere_is_listed(void **state)
{
    (void)state;
    assert_int_equal(symlink(at("out/sub"), at("in/list")), 0);
    expect_outside(list_dataset, at("in/list"));
    expect_outside(read_text, at("in/list"));
    expect_outside(read_weights, at("in/list"));
    expect_outside(read_config, at("in/list"));
    expect_outside(check_links, at("in/list"));
}

static void test_files_of_a_checkpoint_are_judged_each(void **state)
{
    static const char *const files[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                        "pytorch_model.bin.index.json", "model.gguf"};
    char name[64];
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(name, sizeof name, "in/model/%s", files[i]);
        assert_int_equal(symlink(at("out/file"), at(name)), 0);
        expect_outside(read_weights, at("in/model"));
        assert_int_equal(unlink(at(name)), 0);
    }
    assert_int_equal(symlink(at("out/file"), at("in/model/config.json")), 0);
    expect_outside(read_config, at("in/model"));
}

static void expect_kept(const char *path)
{
    struct error error;
    assert_int_equal(read_file(path, &error), STATUS_INVALID);
    assert_non_null(strstr(error.detail, "the server keeps for itself"));
}

static void test_links_lead_to_nothing_that_is_closed(void **state)
{
    (void)state;
    assert_int_equal(symlink(at("data/pg/secrets"), at("in/writable/pg")), 0);
    assert_int_equal(symlink(at("in/hidden/key"), at("in/writable/key")), 0);
    assert_int_equal(link(at("in/hidden/key"), at("in/writable/same")), 0);
    assert_int_equal(symlink(at("data/tmp/own"), at("in/writable/own")), 0);
    paths[0] = base;
    expect_kept(at("in/writable/pg"));
    expect_kept(at("in/writable/own"));
    expect_kept(at("in/hidden/key"));
    expect_kept(at("in/writable/key"));
    secrets[0] = at("in/hidden/key"); /* the file itself: by any of its names */
    expect_kept(at("in/writable/same"));
    secrets[0] = secret;
    paths[0] = root;
    expect_outside(read_file, at("in/writable/own"));
}

/* Though no root has it; also where a place of the data directory is a link to a larger disk. */
static void test_the_server_s_own_files_are_read(void **state)
{
    struct error error;
    struct file *file = NULL;
    char descriptor[40];
    int directory;
    (void)state;
    expect_read(read_file, at("data/tmp/own"));
    expect_outside(read_file, at("data/mine"));
    expect_outside(read_file, at("elsewhere/own"));
    assert_int_equal(rmdir(at("data/hub")), 0);
    assert_int_equal(symlink(at("elsewhere"), at("data/hub")), 0);
    expect_read(read_file, at("data/hub/own"));
    assert_int_equal(file_directory(AT_FDCWD, at("data/hub"), &directory, &error), STATUS_OK);
    assert_int_equal(file_open(directory, "own", FILE_FOLLOW_LINKS, 100, &file, &error), STATUS_OK);
    file_close(file);
    (void)close(directory);
    const int open_already = open(at("out/file"), O_RDONLY | O_CLOEXEC);
    (void)snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", open_already);
    expect_read(read_file, descriptor);
    assert_int_equal(symlink(descriptor, at("in/writable/descriptor")), 0); /* by a link it is like any file */
    expect_outside(read_file, at("in/writable/descriptor"));
    (void)close(open_already);
    assert_int_equal(symlink(at("out/file"), at("elsewhere/out")), 0);
    expect_outside(read_file, at("data/hub/out"));
    assert_int_equal(file_open(AT_FDCWD, at("data/tmp/absent"), FILE_REFUSE_LINKS, 100, &file, &error),
                     STATUS_NOT_FOUND);
}

/* A file that is replaced while it is opened is neither outside nor closed. */
static void test_a_name_lost_meanwhile_is_told_as_that(void **state)
{
    struct error error;
    (void)state;
    const int descriptor = open(at("in/renamed"), O_RDONLY | O_CLOEXEC);
    assert_true(descriptor >= 0);
    assert_int_equal(roots_check_open(&roots, AT_FDCWD, at("in/renamed"), descriptor, &error), STATUS_OK);
    assert_int_equal(unlink(at("in/renamed")), 0);
    assert_int_equal(roots_check_open(&roots, AT_FDCWD, at("in/renamed"), descriptor, &error), STATUS_INPUT_CHANGED);
    (void)close(descriptor);
}

static void test_without_a_guard_everything_is_read(void **state)
{
    struct error error;
    (void)state;
    file_guard_set(NULL);
    assert_int_equal(read_file(at("out/file"), &error), STATUS_OK);
}

static int guarded(void **state)
{
    static const struct file_guard guard = {&roots, check};
    (void)state;
    file_guard_set(&guard);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_no_reader_follows_a_link_out_of_the_roots, guarded),
        cmocka_unit_test_setup(test_no_reader_follows_a_directory_out_of_the_roots, guarded),
        cmocka_unit_test_setup(test_no_directory_elsewhere_is_listed, guarded),
        cmocka_unit_test_setup(test_files_of_a_checkpoint_are_judged_each, guarded),
        cmocka_unit_test_setup(test_links_lead_to_nothing_that_is_closed, guarded),
        cmocka_unit_test_setup(test_the_server_s_own_files_are_read, guarded),
        cmocka_unit_test_setup(test_a_name_lost_meanwhile_is_told_as_that, guarded),
        cmocka_unit_test(test_without_a_guard_everything_is_read),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
