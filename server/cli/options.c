#include "cli/options.h"

#include "base/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool options_same_name(const char *name, const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (name[i] == word[i] && name[i] != '\0') continue;
        if ((name[i] != '-' && name[i] != '_') || (word[i] != '-' && word[i] != '_')) return false;
    }
    return name[length] == '\0';
}

static bool same_flag(const char *flag, const char *word, size_t length)
{
    return length > 2 && strncmp(flag, word, 2) == 0 && options_same_name(flag + 2, word + 2, length - 2);
}

static int row_index(const struct option_row *rows, const char *flag, size_t length)
{
    for (int i = 0; rows[i].flag != NULL; i++)
        if (same_flag(rows[i].flag, flag, length)) return i;
    return -1;
}

const char *options_first_word(const struct option_row *rows, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) return i + 1 < argc ? argv[i + 1] : NULL;
        if (argv[i][0] != '-' || argv[i][1] == '\0') return argv[i];
        const size_t length = strcspn(argv[i], "=");
        const int index = row_index(rows, argv[i], length);
        if (index >= 0 && rows[index].value != NULL && argv[i][length] != '=') i++;
    }
    return NULL;
}

static enum status add_value(struct options *options, int index, const char *text, size_t length, struct error *error)
{
    size_t count = 0;
    while (options->values[index] != NULL && options->values[index][count] != NULL) count++;
    char **list = realloc(options->values[index], (count + 2) * sizeof *list);
    if (list == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for options");
    options->values[index] = list;
    list[count] = strndup(text, length);
    list[count + 1] = NULL;
    return list[count] != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for options");
}

static enum status read_environment(struct options *options, int index, struct error *error)
{
    const struct option_row *row = &options->rows[index];
    const char *text = row->environment != NULL ? getenv(row->environment) : NULL;
    static const char *const separators[] = {
        [OPTION_ONCE] = "", [OPTION_COLONS] = ":", [OPTION_SPACES] = " ", [OPTION_SEMICOLONS] = ";"};
    const char *separator = separators[row->times];
    enum status status = STATUS_OK;
    if (text == NULL || text[0] == '\0' || options->values[index] != NULL) return STATUS_OK;
    if (row->times == OPTION_ONCE) return add_value(options, index, text, strlen(text), error);
    while (status == STATUS_OK && *text != '\0') {
        const size_t length = strcspn(text, separator);
        if (length > 0) status = add_value(options, index, text, length, error);
        text += length + (text[length] != '\0');
    }
    return status;
}

/* Overwrites the value that ps shows, for the flags that hold secrets in any command. */
static void hide(const char *flag, char *value)
{
    static const char *const secret[] = {"--database-url", "--token"};
    for (size_t i = 0; i < sizeof secret / sizeof secret[0]; i++)
        if (strcmp(flag, secret[i]) == 0) memset(value, 'x', strlen(value));
}

static enum status read_flag(struct options *options, int argc, char **argv, int *at, struct error *error)
{
    char *word = argv[*at];
    const size_t length = strcspn(word, "=");
    const int index = row_index(options->rows, word, length);
    char *value = word[length] == '=' ? word + length + 1 : NULL;
    if (index < 0) return error_set(error, STATUS_INVALID, "unknown option %.*s; see --help", (int)length, word);
    const struct option_row *row = &options->rows[index];
    if (row->value == NULL && value != NULL) return error_set(error, STATUS_INVALID, "%s takes no value", row->flag);
    if (row->times == OPTION_ONCE && options->values[index] != NULL)
        return error_set(error, STATUS_INVALID, "%s stands twice", row->flag);
    if (row->value == NULL) return add_value(options, index, "1", 1, error);
    if (value == NULL && *at + 1 < argc) value = argv[++*at];
    if (value == NULL) return error_set(error, STATUS_INVALID, "%s needs a value: %s", row->flag, row->value);
    const enum status status = add_value(options, index, value, strlen(value), error);
    hide(row->flag, value);
    return status;
}

static enum status read_word(struct options *options, const char *word, int most_words, struct error *error)
{
    if (options->word_count >= most_words)
        return error_set(error, STATUS_INVALID, "unexpected word \"%.100s\"; see --help", word);
    options->words[options->word_count++] = word;
    options->positional = options->words[0];
    return STATUS_OK;
}

static size_t count_rows(const struct option_row *rows)
{
    size_t count = 0;
    while (rows[count].flag != NULL) count++;
    return count;
}

enum status options_parse(const struct option_row *rows, int argc, char **argv, int most_words, struct options *out,
                          struct error *error)
{
    enum status status = STATUS_OK;
    *out = (struct options){.rows = rows, .values = calloc(count_rows(rows) + 1, sizeof *out->values)};
    if (out->values == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for options");
    bool words = false; /* after "--" */
    for (int i = 0; i < argc && status == STATUS_OK; i++) {
        if (words)
            status = read_word(out, argv[i], most_words, error);
        else if (strcmp(argv[i], "--") == 0)
            words = true;
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            out->help = true;
        else if (argv[i][0] == '-' && argv[i][1] != '\0')
            status = read_flag(out, argc, argv, &i, error);
        else
            status = read_word(out, argv[i], most_words, error);
    }
    for (int i = 0; rows[i].flag != NULL && status == STATUS_OK; i++) status = read_environment(out, i, error);
    return status;
}

void options_reset(struct options *options)
{
    for (size_t i = 0; options->values != NULL && options->rows[i].flag != NULL; i++) {
        for (char **value = options->values[i]; value != NULL && *value != NULL; value++) free(*value);
        free(options->values[i]);
    }
    free(options->values);
    *options = (struct options){0};
}

bool options_given(const struct options *options, const char *flag)
{
    const int index = row_index(options->rows, flag, strlen(flag));
    return index >= 0 && options->values[index] != NULL;
}

const char *options_text(const struct options *options, const char *flag)
{
    const int index = row_index(options->rows, flag, strlen(flag));
    if (index < 0) return NULL;
    return options->values[index] != NULL ? options->values[index][0] : options->rows[index].fallback;
}

const char *const *options_all(const struct options *options, const char *flag)
{
    static const char *const none[] = {NULL};
    const int index = row_index(options->rows, flag, strlen(flag));
    return index >= 0 && options->values[index] != NULL ? (const char *const *)options->values[index] : none;
}

enum status options_integer(const struct options *options, const char *flag, int64_t minimum, int64_t maximum,
                            int64_t *out, struct error *error)
{
    const char *text = options_text(options, flag);
    char *end = NULL;
    errno = 0;
    const long long value = text != NULL ? strtoll(text, &end, 10) : 0;
    if (text == NULL || end == text || *end != '\0' || errno != 0 || value < minimum || value > maximum)
        return error_set(error, STATUS_INVALID, "%s must be a whole number from %lld to %lld, found \"%s\"", flag,
                         (long long)minimum, (long long)maximum, text != NULL ? text : "");
    *out = value;
    return STATUS_OK;
}

enum status options_size(const struct options *options, const char *flag, int64_t *out, struct error *error)
{
    const char *text = options_text(options, flag);
    if (size_read(text, out)) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%s must be a size like 20G, found \"%.40s\"", flag, text);
}

void options_print(const struct option_row *rows, FILE *out)
{
    for (; rows->flag != NULL; rows++) {
        char left[80];
        if (rows->help == NULL) continue;
        (void)snprintf(left, sizeof left, "%s%s%s%s", rows->flag, rows->value != NULL ? " " : "",
                       rows->value != NULL ? rows->value : "", rows->times != OPTION_ONCE ? "..." : "");
        (void)fprintf(out, "  %-24s %s", left, rows->help);
        if (rows->fallback != NULL) (void)fprintf(out, " (default %s)", rows->fallback);
        if (rows->environment != NULL) (void)fprintf(out, " [%s]", rows->environment);
        (void)fputc('\n', out);
    }
}
