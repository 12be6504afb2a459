/* Files of torch.save that lie, trick or are broken: each refused with its own reason, and nothing of them is ever
 * run. */
#include "engine/files/scratch.h"
#include "engine/formats/pytorch/archive.h"
#include "engine/formats/pytorch/pickles.h"
#include "unit.h"

#include "weights/weights.h"

/* Opens `bytes` [size] as a checkpoint, from a file of exactly that size. */
static enum status open_bytes(const void *bytes, size_t size, struct weights **out, struct error *error)
{
    struct scratch scratch;
    scratch_open(&scratch);
    scratch_write(&scratch, "x.bin", bytes, size);
    const enum status status = weights_open(scratch_path(&scratch, "x.bin"), out, error);
    if (status != STATUS_OK) assert_null(strstr(error->detail, scratch.directory));
    scratch_close(&scratch);
    return status;
}

static void expect(const char *what, const void *bytes, size_t size, enum status expected, const char *detail)
{
    struct weights *weights = NULL;
    struct error error = {.detail = ""};
    const enum status status = open_bytes(bytes, size, &weights, &error);
    if (status != expected || (detail != NULL && strstr(error.detail, detail) == NULL))
        fail_msg("%s: %s: %s", what, status_info(status)->name, status == STATUS_OK ? "" : error.detail);
    assert_true((status == STATUS_OK) == (weights != NULL));
    weights_close(weights);
}

struct pickle_case {
    const char *what, *bytes;
    size_t size;
    enum status status;
    const char *detail;
};

#define CASE(what, literal, status, detail)                \
    {                                                      \
        what, literal, sizeof(literal) - 1, status, detail \
    }
#define IMPORT(module, name)        PROTO "c" module "\n" name "\n."
#define NAMES(module, name)         CASE(module "." name, IMPORT(module, name), STATUS_UNSUPPORTED, module "." name)
#define SAYS(what, literal, detail) CASE(what, literal, STATUS_CORRUPT, detail)
#define OPCODE(name, code)          CASE(name, PROTO "K\1" code, STATUS_UNSUPPORTED, "opcode " name)
#define X2(x)                       x x
#define X8(x)                       X2(X2(X2(x)))
#define X64(x)                      X8(X8(x))

static const struct pickle_case pickles[] = {
    CASE("a tensor", DICT_OF(TENSOR), STATUS_OK, NULL),
    CASE("of two storages",
         PROTO "}(" TEXT1("a") TENSOR TEXT1("b")
             TENSOR_OF(STORAGE("torch\nFloatStorage", "1", "K\2"), "K\1K\1\x85K\1\x85") "u.",
         STATUS_OK, NULL),
    CASE("a scalar", PLACED("K\3))"), STATUS_OK, NULL),
    CASE("transposed", PLACED("K\0K\2K\2\x86K\1K\2\x86"), STATUS_OK, NULL),
    CASE("of no element", PLACED("K\4K\0\x85K\1\x85"), STATUS_OK, NULL),
    CASE("a parameter", DICT_OF("ctorch._utils\n_rebuild_parameter\n(" TENSOR "\x88" HOOKS "tR"), STATUS_OK, NULL),
    CASE("protocol 4", "\x80\4\x95\x01\0\0\0\0\0\0\0}\x8c\1a" TENSOR "s.", STATUS_OK, NULL),
    CASE("a training state", PROTO "}(" TEXT1("z") "M\1\2X\5\0\0\0model}" TEXT1("a") TENSOR "su.", STATUS_OK, NULL),

    CASE("what trainers keep beside",
         PROTO "}(X\4\0\0\0argscargparse\nNamespace\n)\x81}" TEXT1("x") "K\1sbX\4\0\0\0histc__builtin__\nlist\n)RX\5"
                                                                        "\0\0\0model}" TEXT1("a") TENSOR "su.",
         STATUS_OK, NULL),

    /* Names that run something when they are called, and gadgets by which scanners were evaded. */
    NAMES("os", "system"),
    NAMES("posix", "system"),
    NAMES("nt", "system"),
    NAMES("subprocess", "Popen"),
    NAMES("builtins", "eval"),
    NAMES("builtins", "exec"),
    NAMES("builtins", "__import__"),
    NAMES("__builtin__", "getattr"),
    NAMES("runpy", "_run_code"),
    NAMES("pty", "spawn"),
    NAMES("socket", "socket"),
    NAMES("shutil", "rmtree"),
    NAMES("operator", "attrgetter"),
    NAMES("functools", "partial"),
    NAMES("importlib", "import_module"),
    NAMES("torch.storage", "_load_from_bytes"),
    NAMES("torch.hub", "load"),
    NAMES("torch", "load"),
    NAMES("torch._inductor.codecache", "compile_file"),
    NAMES("numpy.testing._private.utils", "runstring"),
    NAMES("timeit", "timeit"),
    NAMES("pickle", "loads"),
    NAMES("_pickle", "loads"),
    NAMES("copyreg", "_reconstructor"),
    NAMES("webbrowser", "open"),
    NAMES("asyncio.unix_events", "_UnixSubprocessTransport"),
    NAMES("torch.nn.modules.linear", "Linear"),
    NAMES("__main__", "Model"),
    NAMES("os", "popen"),
    CASE("a name on the stack", PROTO "\x8c\2os\x8c\6system\x93.", STATUS_UNSUPPORTED, "os.system"),
    CASE("code first, broken later",
         PROTO "cos\nsystem\nX\4\0\0\0true\x85R"
               "}"
               "\xff",
         STATUS_UNSUPPORTED, "os.system"),
    CASE("a name with dots", PROTO "cbuiltins\ndict.__class__\n.", STATUS_UNSUPPORTED, "dict.__class__"),
    CASE("a dict in a module of its own", PROTO "cevil.collections\nOrderedDict\n.", STATUS_UNSUPPORTED,
         "evil.collections"),
    CASE("another case", PROTO "cTorch\nFloatStorage\n.", STATUS_UNSUPPORTED, "Torch.FloatStorage"),
    CASE("control characters in a name", PROTO "co\033s\nsystem\n.", STATUS_UNSUPPORTED, "o?s.system"),
    CASE("sparse", PROTO "ctorch._utils\n_rebuild_sparse_tensor\n.", STATUS_UNSUPPORTED, "to_dense"),
    CASE("quantized", PROTO "ctorch._utils\n_rebuild_qtensor\n.", STATUS_UNSUPPORTED, "quantized"),
    CASE("without values", PROTO "ctorch._utils\n_rebuild_meta_tensor_no_storage\n.", STATUS_UNSUPPORTED, "meta"),
    CASE("distributed", PROTO "ctorch.distributed.tensor\nDTensor\n.", STATUS_UNSUPPORTED, "full state dict"),

    OPCODE("INST", "(ios\nsystem\n."),
    OPCODE("OBJ", "(o."),
    OPCODE("EXT1", "\x82\1."),
    OPCODE("EXT2", "\x83\1\0."),
    OPCODE("EXT4", "\x84\1\0\0\0."),
    OPCODE("NEWOBJ_EX", "\x92."),
    OPCODE("PERSID", "Pa\n."),
    OPCODE("DUP", "2."),
    OPCODE("INT", "I1\n."),
    OPCODE("LONG4", "\x8b\1\0\0\0\1."),
    OPCODE("STRING", "S'a'\n."),
    OPCODE("UNICODE", "Va\n."),
    OPCODE("BINUNICODE8", "\x8d\1\0\0\0\0\0\0\0a."),
    OPCODE("BYTEARRAY8", "\x96\1\0\0\0\0\0\0\0a."),
    OPCODE("NEXT_BUFFER", "\x97."),
    OPCODE("FROZENSET", "(\x91."),
    OPCODE("GET", "g0\n."),
    OPCODE("PUT", "p0\n."),
    OPCODE("PROTO", "\x80\2."),
    SAYS("no opcode", PROTO "\xff", "0xff is no opcode"),

    SAYS("nothing", "", "begin with protocol"),
    SAYS("no protocol", "}.", "begin with protocol"),
    SAYS("protocol 0", "\x80\0}.", "begin with protocol"),
    SAYS("protocol 6", "\x80\6}.", "begin with protocol"),
    SAYS("no end", PROTO "}", "ends early"),
    SAYS("a second pickle", DICT_OF(TENSOR) DICT_OF(TENSOR), "bytes follow the end"),
    SAYS("two values", PROTO "}}.", "left on the stack"),
    SAYS("no value", PROTO ".", "stack is empty"),
    SAYS("a mark for a value", PROTO "(.", "mark"),
    SAYS("no mark", PROTO "}t.", "no mark"),
    SAYS("a key alone", PROTO "}(K\1u.", "without a value"),
    SAYS("a text beyond the end",
         PROTO "X\xff\xff\xff\xff"
               "a.",
         "ends early"),
    SAYS("a long beyond the end", PROTO "\x8a\xff\1.", "ends early"),
    SAYS("a name without end", PROTO "cos", "without an end"),
    SAYS("a frame beyond the end", "\x80\4\x95\xff\xff\xff\xff\xff\xff\xff\xff}.", "frame"),
    SAYS("a memo that is not there", PROTO "h\0.", "memo"),
    SAYS("a memo far away", PROTO "}q\5.", "in order"),
    SAYS("a memo beyond all", PROTO "}r\xff\xff\xff\x7f.", "in order"),
    SAYS("a memo of a mark", PROTO "(q\0.", "mark"),
    SAYS("a dict in itself", PROTO "}q\0" TEXT1("a") "h\0s.", "contains itself"),
    SAYS("two in each other", PROTO "}q\0" TEXT1("a") "}q\1" TEXT1("b") "h\0ss.", "contains itself"),
    SAYS("a list in itself", PROTO "]q\0h\0a.", "contains itself"),
    SAYS("a change after use", PROTO "]q\0}" TEXT1("a") "h\0s0h\0K\1a.", "changes after"),
    CASE("too deep", PROTO X64("]") X64("]") "]" X64("a") X64("a") ".", STATUS_TOO_LARGE, "nesting"),
    SAYS("a text called", PROTO TEXT1("a") ")R.", "no name"),
    SAYS("a call without arguments", PROTO "ctorch\nSize\nK\1R.", "tuple"),
    SAYS("an item for a tuple", PROTO ")K\1a.", "no list"),
    SAYS("an item for a dict", PROTO "}K\1a.", "no list"),
    SAYS("a pair for a list", PROTO "]K\1K\2s.", "no dict"),
    SAYS("a state for a number", PROTO "K\1}b.", "state"),
    SAYS("a name of a number", PROTO "K\1K\2\x93.", "no text"),

    CASE("a number", PROTO "K\1.", STATUS_INVALID, "no state dict"),
    CASE("an empty dict", PROTO "}.", STATUS_INVALID, "no state dict"),
    CASE("no tensors", PROTO "}X\5\0\0\0epochK\1s.", STATUS_INVALID, "found: epoch"),
    CASE("two state dicts", PROTO "}(X\5\0\0\0model}" TEXT1("a") TENSOR "sX\3\0\0\0net}" TEXT1("a") TENSOR "su.",
         STATUS_INVALID, "two state dicts"),
    SAYS("two of one name", PROTO "}(" TEXT1("a") TENSOR "X\x08\0\0\0module.a" TENSOR "u.",
         "two tensors are called \"a\""),
    SAYS("a name of nothing", PROTO "}(X\7\0\0\0module." TENSOR "u.", "two tensors are called \"\""),
    SAYS("a control character", PROTO "}" TEXT1("\1") TENSOR "s.", "control characters"),
    SAYS("bad UTF-8", PROTO "}" TEXT1("\xff") TENSOR "s.", "UTF-8"),
    SAYS("a number for a name", PROTO "}K\1" TENSOR "s.", "name"),
    CASE("a shard of FSDP", PROTO "}X\x0b\0\0\0_flat_param" TENSOR "s.", STATUS_UNSUPPORTED, "full state dict"),

    SAYS("a storage that is not there", DICT_OF(TENSOR_OF(STORAGE("torch\nFloatStorage", "7", "K\4"), PLACE)),
         "not in the archive"),
    SAYS("a storage elsewhere",
         DICT_OF(TENSOR_OF("(X\7\0\0\0storagectorch\nFloatStorage\nX\7\0\0\0../../0X\3\0\0\0cpuK\4tQ", PLACE)),
         "no plain name"),
    SAYS("a storage that is the pickle", DICT_OF(TENSOR_OF(STORAGE("torch\nFloatStorage", "/", "K\4"), PLACE)),
         "no plain name"),
    SAYS("a longer storage", DICT_OF(TENSOR_OF(STORAGE("torch\nFloatStorage", "0", "K\5"), PLACE)), "another size"),
    SAYS("a shorter storage", DICT_OF(TENSOR_OF(STORAGE("torch\nFloatStorage", "0", "K\3"), "K\0K\3\x85K\1\x85")),
         "another size"),
    SAYS("a wider type", DICT_OF(TENSOR_OF(STORAGE("torch\nDoubleStorage", "0", "K\4"), PLACE)), "another size"),
    SAYS("a size that wraps around",
         DICT_OF(TENSOR_OF(STORAGE("torch\nFloatStorage", "0", "\x8a\x08\4\0\0\0\0\0\0\x40"), PLACE)), "another size"),
    SAYS("a negative size", DICT_OF(TENSOR_OF(STORAGE("torch\nFloatStorage", "0", "J\xff\xff\xff\xff"), PLACE)),
         "another size"),
    SAYS("a function for a type", DICT_OF(TENSOR_OF(STORAGE("torch\nSize", "0", "K\4"), PLACE)), "no type"),
    CASE("complex numbers", DICT_OF(TENSOR_OF(STORAGE("torch\nComplexFloatStorage", "0", "K\2"), "K\0K\2\x85K\1\x85")),
         STATUS_UNSUPPORTED, "complex"),
    SAYS("no storage", DICT_OF(TENSOR_OF("N", PLACE)), "no storage"),
    SAYS("a storage of text", DICT_OF(TENSOR_OF(TEXT1("0") "Q", PLACE)), "no storage"),
    SAYS("a storage of two parts", DICT_OF(TENSOR_OF(TEXT1("0") TEXT1("1") "\x86Q", PLACE)), "not described"),

    SAYS("beyond by one", PLACED("K\1K\4\x85K\1\x85"), "beyond its storage"),
    SAYS("beyond by strides", PLACED("K\0K\4\x85K\2\x85"), "beyond"),
    SAYS("before the start", PLACED("J\xff\xff\xff\xffK\4\x85K\1\x85"), "beyond"),
    SAYS("an offset of 2^63 - 1", PLACED("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\4\x85K\1\x85"), "beyond"),
    SAYS("a negative stride", PLACED("K\3K\4\x85J\xff\xff\xff\xff\x85"), "beyond"),
    SAYS("a negative size of an axis", PLACED("K\0J\xff\xff\xff\xff\x85K\1\x85"), "beyond"),
    SAYS("axes that overflow", PLACED("K\0\x8a\5\0\0\0\0\1\x8a\5\0\0\0\0\1\x86K\1K\1\x86"), "beyond"),
    SAYS("strides that overflow",
         PLACED("K\0K\2K\2\x86\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x86"),
         "beyond"),
    CASE("a number repeated without end", PLACED("K\0\x8a\5\0\0\0\0\1\x85K\0\x85"), STATUS_UNSUPPORTED, "stride 0"),
    SAYS("windows that overlap into more", PLACED("K\0K\3K\2\x86K\1K\1\x86"), "beyond"),
    SAYS("strides for another shape", PLACED("K\0K\2K\2\x86K\1\x85"), "not described"),
    SAYS("nine dimensions", PLACED("K\0(" X8("K\1") "K\1t(" X8("K\1") "K\1t"), "8 dimensions"),
    SAYS("a text for a size", PLACED("K\0" TEXT1("4") "\x85K\1\x85"), "not described"),
    SAYS("too few arguments", DICT_OF("ctorch._utils\n_rebuild_tensor_v2\n(" FLOATS "K\0tR"), "not described"),
    CASE("a negated view",
         DICT_OF("ctorch._utils\n_rebuild_tensor_v2\n(" FLOATS PLACE "\x89" HOOKS "}X\3\0\0\0neg\x88stR"),
         STATUS_UNSUPPORTED, "negated"),
};

static void test_pickles_are_data_and_their_tricks_are_named(void **state)
{
    struct archive *archive = malloc(sizeof *archive);
    (void)state;
    assert_non_null(archive);
    for (size_t i = 0; i < sizeof pickles / sizeof pickles[0]; i++) {
        archive_of_pickle(archive, pickles[i].bytes, pickles[i].size);
        expect(pickles[i].what, archive->bytes, archive->size, pickles[i].status, pickles[i].detail);
    }
    print_message("%zu pickles\n", sizeof pickles / sizeof pickles[0]);
    free(archive);
}

/* A pickle ends anywhere: never more than a refusal. */
static void test_a_pickle_cut_anywhere_is_refused(void **state)
{
    static const char whole[] = DICT_OF(TENSOR);
    struct archive *archive = malloc(sizeof *archive);
    (void)state;
    assert_non_null(archive);
    for (size_t size = 0; size + 1 < sizeof whole - 1; size++) {
        archive_of_pickle(archive, whole, size);
        expect("cut", archive->bytes, archive->size, STATUS_CORRUPT, NULL);
    }
    free(archive);
}

/* --- The archive -------------------------------------------------------------------------------------------------- */
enum spoil {
    SOUND,
    COMMENT,
    TRAILING,
    CUT,
    DISKS,
    COUNT_LIES,
    SIZE_LIES,
    OFFSET_LIES,
    COMPRESSED,
    ENCRYPTED,
    LOCAL_NAME,
    LOCAL_SIZE,
    LOCAL_METHOD,
    LOCAL_FLAGS,
    CHECKSUM,
    BOTH_SIZES,
    OVERLAP,
    SAME_BYTES,
    HEADER_OUTSIDE,
    PATH_UP,
    PATH_ABSOLUTE,
    PATH_BACKSLASH,
    NAME_NUL,
    TWICE,
    OTHER_FOLDER,
    NO_PICKLE,
    BIG_END_FIRST,
    SCRIPT,
    PREFIX,
    LOCATOR,
    WIDE,
    NO_ENTRIES
};

static const struct {
    const char *what;
    enum spoil how;
    enum status status;
    const char *detail;
} archives[] = {
    {"sound", SOUND, STATUS_OK, NULL},
    {"a comment, which hides another archive", COMMENT, STATUS_CORRUPT, "does not end with its end record"},
    {"bytes behind it", TRAILING, STATUS_CORRUPT, "does not end with its end record"},
    {"cut", CUT, STATUS_CORRUPT, "does not end with its end record"},
    {"two disks", DISKS, STATUS_UNSUPPORTED, "several disks"},
    {"more entries announced", COUNT_LIES, STATUS_CORRUPT, "directory"},
    {"a shorter directory announced", SIZE_LIES, STATUS_CORRUPT, "right before its end record"},
    {"a directory elsewhere", OFFSET_LIES, STATUS_CORRUPT, "right before its end record"},
    {"compressed: a bomb", COMPRESSED, STATUS_UNSUPPORTED, "compressed (method 8)"},
    {"encrypted", ENCRYPTED, STATUS_UNSUPPORTED, "encrypted"},
    {"another name where it lies", LOCAL_NAME, STATUS_CORRUPT, "otherwise in the directory"},
    {"another size where it lies", LOCAL_SIZE, STATUS_CORRUPT, "another size or checksum"},
    {"another method where it lies", LOCAL_METHOD, STATUS_CORRUPT, "otherwise in the directory"},
    {"other flags where it lies", LOCAL_FLAGS, STATUS_CORRUPT, "otherwise in the directory"},
    {"a byte that changed", CHECKSUM, STATUS_CORRUPT, "checksum"},
    {"two sizes", BOTH_SIZES, STATUS_CORRUPT, "two different sizes"},
    {"an entry inside another", OVERLAP, STATUS_CORRUPT, "overlaps"},
    {"two entries of the same bytes", SAME_BYTES, STATUS_CORRUPT, "otherwise in the directory"},
    {"an entry outside", HEADER_OUTSIDE, STATUS_CORRUPT, "outside the file"},
    {"a path upward", PATH_UP, STATUS_CORRUPT, "name is empty, absolute, has \"..\""},
    {"an absolute path", PATH_ABSOLUTE, STATUS_CORRUPT, "name is empty, absolute"},
    {"a backslash", PATH_BACKSLASH, STATUS_CORRUPT, "characters"},
    {"NUL in a name", NAME_NUL, STATUS_CORRUPT, "characters"},
    {"an entry twice", TWICE, STATUS_CORRUPT, "twice"},
    {"two folders", OTHER_FOLDER, STATUS_CORRUPT, "one folder"},
    {"no pickle", NO_PICKLE, STATUS_CORRUPT, "no data.pkl"},
    {"big endian", BIG_END_FIRST, STATUS_UNSUPPORTED, "big-endian"},
    {"a program", SCRIPT, STATUS_UNSUPPORTED, "TorchScript"},
    {"something before it", PREFIX, STATUS_CORRUPT, "belong to no entry"},
    {"a zip64 locator that lies", LOCATOR, STATUS_CORRUPT, "zip64 locator"},
    {"zip64 sizes that are not there", WIDE, STATUS_CORRUPT, "zip64 values"},
    {"no entries", NO_ENTRIES, STATUS_CORRUPT, NULL},
};

/* The archive of a sound pickle, with one thing wrong. Central headers: method at 10, checksum 16, sizes 20 and 24,
 * header 42, name 46; local ones: flags at 6, method 8, sizes 18 and 22, name 30. */
static void spoil(struct archive *archive, enum spoil how)
{
    static const char pickle[] = DICT_OF(TENSOR);
    archive_of_pickle(archive, pickle, sizeof pickle - 1);
    const size_t first = archive->entries[0].central, third = archive->entries[2].central,
                 local = archive->entries[0].local;
    switch (how) {
    case SOUND:
        break;
    case COMMENT:
        archive_patch(archive, archive->end + 20, 2, 2);
        archive_put(archive, 0, 2);
        break;
    case TRAILING:
        archive_put(archive, 0, 1);
        break;
    case CUT:
        archive->size--;
        break;
    case DISKS:
        archive_patch(archive, archive->end + 4, 1, 2);
        break;
    case COUNT_LIES:
        archive_patch(archive, archive->end + 8, 6, 2);
        archive_patch(archive, archive->end + 10, 6, 2);
        break;
    case SIZE_LIES:
        archive_patch(archive, archive->end + 12, archive->end - archive->directory - 1, 4);
        break;
    case OFFSET_LIES:
        archive_patch(archive, archive->end + 16, 0, 4);
        break;
    case COMPRESSED:
        archive_patch(archive, first + 10, 8, 2);
        break;
    case ENCRYPTED:
        archive_patch(archive, first + 8, 1, 2);
        break;
    case LOCAL_NAME:
        archive->bytes[local + 30] = 'b';
        break;
    case LOCAL_SIZE:
        archive_patch(archive, local + 22, 1, 4);
        break;
    case LOCAL_METHOD:
        archive_patch(archive, local + 8, 8, 2);
        break;
    case LOCAL_FLAGS:
        archive_patch(archive, local + 6, 0, 2);
        break;
    case CHECKSUM:
        archive->bytes[local + 30 + strlen("a/data.pkl") + 8] ^= 1;
        break;
    case BOTH_SIZES:
        archive_patch(archive, first + 20, 5, 4);
        break;
    case OVERLAP:
        archive_patch(archive, first + 20, archive->entries[0].size + 8, 4);
        archive_patch(archive, first + 24, archive->entries[0].size + 8, 4);
        archive_patch(archive, local + 18, archive->entries[0].size + 8, 4);
        archive_patch(archive, local + 22, archive->entries[0].size + 8, 4);
        break;
    case SAME_BYTES:
        archive_patch(archive, third + 42, archive->entries[3].local, 4);
        break;
    case HEADER_OUTSIDE:
        archive_patch(archive, third + 42, 0x7fffffff, 4);
        break;
    case PATH_UP:
        memcpy(archive->bytes + third + 46, "../../.x", 8);
        break;
    case PATH_ABSOLUTE:
        archive->bytes[third + 46] = '/';
        break;
    case PATH_BACKSLASH:
        archive->bytes[third + 47] = '\\';
        break;
    case NAME_NUL:
        archive->bytes[third + 48] = '\0';
        break;
    case TWICE:
        archive->bytes[archive->entries[3].central + 53] = '0';
        archive->bytes[archive->entries[3].local + 37] = '0';
        break;
    case OTHER_FOLDER:
        archive->bytes[third + 46] = 'b';
        archive->bytes[archive->entries[2].local + 30] = 'b';
        break;
    case NO_PICKLE:
        archive->bytes[first + 46 + 9] = 'x';
        archive->bytes[local + 30 + 9] = 'x';
        break;
    case BIG_END_FIRST:
    case SCRIPT:
    case NO_ENTRIES:
        memset(archive, 0, sizeof *archive);
        if (how != NO_ENTRIES) archive_add(archive, "a/data.pkl", pickle, sizeof pickle - 1);
        if (how == BIG_END_FIRST) archive_add(archive, "a/byteorder", "big", 3);
        if (how == SCRIPT) archive_add(archive, "a/code/__torch__.py", "x", 1);
        archive_finish(archive);
        break;
    case PREFIX:
        memset(archive, 0, sizeof *archive);
        archive_bytes(archive, "PK\3\4 another file", 17);
        archive_add(archive, "a/data.pkl", pickle, sizeof pickle - 1);
        archive_finish(archive);
        break;
    case LOCATOR:
        memmove(archive->bytes + archive->end + 76, archive->bytes + archive->end, 22);
        memset(archive->bytes + archive->end, 0, 76);
        memcpy(archive->bytes + archive->end + 56, "PK\6\7", 4);
        archive->size += 76;
        break;
    case WIDE:
        archive_patch(archive, first + 20, 0xffffffff, 4);
        archive_patch(archive, first + 24, 0xffffffff, 4);
        break;
    }
}

static void test_archives_that_contradict_themselves_are_refused(void **state)
{
    struct archive *archive = malloc(sizeof *archive);
    (void)state;
    assert_non_null(archive);
    for (size_t i = 0; i < sizeof archives / sizeof archives[0]; i++) {
        spoil(archive, archives[i].how);
        expect(archives[i].what, archive->bytes, archive->size, archives[i].status, archives[i].detail);
    }
    free(archive);
}

static void test_an_archive_cut_anywhere_is_refused(void **state)
{
    struct archive *archive = malloc(sizeof *archive);
    (void)state;
    assert_non_null(archive);
    spoil(archive, SOUND);
    for (size_t size = 0; size < archive->size; size += 1 + size % 7)
        expect("cut", archive->bytes, size, STATUS_CORRUPT, NULL);
    free(archive);
}

static void test_other_files_with_these_endings_are_named(void **state)
{
    static const struct pickle_case files[] = {
        CASE("before PyTorch 1.6", "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3.",
             STATUS_UNSUPPORTED, "version 1.6"),
        CASE("a bare pickle", "\x80\2}.", STATUS_UNSUPPORTED, "bare pickle"),
        CASE("gzip", "\x1f\x8b\x08\0", STATUS_UNSUPPORTED, "gzip"),
        CASE("git-lfs", "version https://git-lfs.github.com/spec/v1\n", STATUS_UNSUPPORTED, "git lfs pull"),
        CASE("a web page", "<!DOCTYPE html>", STATUS_UNSUPPORTED, "web page"),
        CASE("GGUF", "GGUF\3\0\0\0", STATUS_UNSUPPORTED, ".gguf"),
        CASE("safetensors", "\x40\0\0\0\0\0\0\0{\"a\":{}}", STATUS_UNSUPPORTED, ".safetensors"),
        CASE("nothing", "", STATUS_CORRUPT, "torch.save"),
        CASE("zeros", "\0\0\0\0\0\0\0\0", STATUS_CORRUPT, "torch.save"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        expect(files[i].what, files[i].bytes, files[i].size, files[i].status, files[i].detail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pickles_are_data_and_their_tricks_are_named),
        cmocka_unit_test(test_a_pickle_cut_anywhere_is_refused),
        cmocka_unit_test(test_archives_that_contradict_themselves_are_refused),
        cmocka_unit_test(test_an_archive_cut_anywhere_is_refused),
        cmocka_unit_test(test_other_files_with_these_endings_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
