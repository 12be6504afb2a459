#include "hub/names.h"

#include <ctype.h>
#include <string.h>

enum { PART_MOST = 96, FILE_PART_MOST = 200, DEPTH_MOST = 8 };

static bool is_part(const char *text, size_t length)
{
    if (length == 0 || length > PART_MOST || text[0] == '.' || text[0] == '-' || text[length - 1] == '.') return false;
    for (size_t i = 0; i < length; i++) {
        if (!isalnum((unsigned char)text[i]) && strchr("-_.", text[i]) == NULL) return false;
        if (i > 0 && text[i] == '.' && text[i - 1] == '.') return false;
    }
    return true;
}

bool names_is_repo(const char *text)
{
    const char *slash = strchr(text, '/');
    if (strlen(text) > NAMES_REPO_MOST) return false;
    if (slash == NULL) return is_part(text, strlen(text));
    return is_part(text, (size_t)(slash - text)) && is_part(slash + 1, strlen(slash + 1));
}

/* git-check-ref-format(1). */
bool names_is_revision(const char *text)
{
    const size_t length = strlen(text);
    if (length == 0 || length > NAMES_REVISION_MOST) return false;
    if (text[0] == '/' || text[0] == '-' || text[0] == '.' || text[length - 1] == '/' || text[length - 1] == '.')
        return false;
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)text[i];
        if (byte <= 0x20 || byte == 0x7f || strchr("\\~^:?*[", byte) != NULL) return false;
        if (i > 0 && (text[i] == '.' || text[i] == '/') && (text[i - 1] == '.' || text[i - 1] == '/')) return false;
        if (text[i] == '@' && text[i + 1] == '{') return false;
    }
    return true;
}

bool names_is_hex(const char *text, size_t digits)
{
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

bool names_is_commit(const char *text)
{
    return names_is_hex(text, NAMES_COMMIT - 1);
}

bool names_is_file(const char *text)
{
    const size_t length = strlen(text);
    size_t part = 0;
    int depth = 1;
    if (length == 0 || length > NAMES_FILE_MOST) return false;
    for (size_t i = 0; i <= length; i++) {
        if (i < length && text[i] != '/') {
            const unsigned char byte = (unsigned char)text[i];
            if (byte < 0x20 || byte == 0x7f || byte == '\\') return false;
            part++;
            continue;
        }
        const char *begin = text + i - part;
        const bool dots = (part == 1 && begin[0] == '.') || (part == 2 && begin[0] == '.' && begin[1] == '.');
        if (part == 0 || part > FILE_PART_MOST || dots) return false;
        if (i < length && ++depth > DEPTH_MOST) return false;
        part = 0;
    }
    return true;
}

#define REPO_WANTED \
    "must be the name of a repository, like \"EleutherAI/pythia-160m\": letters, digits, \"-\", \"_\" and \".\""
#define REPO_PART "[A-Za-z0-9_][A-Za-z0-9_-]*(\\.[A-Za-z0-9_-]+)*"

const struct param_form names_repo_form = {
    .pattern = "^" REPO_PART "(/" REPO_PART ")?$",
    .fits = names_is_repo,
    .wanted = REPO_WANTED,
};

enum status names_check_repo(const char *text, const char *pointer, struct error *error)
{
    if (names_is_repo(text)) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, pointer, REPO_WANTED);
}

enum status names_check_revision(const char *text, const char *pointer, struct error *error)
{
    if (names_is_revision(text)) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, pointer, "must be a branch, a tag or a commit");
}

enum status names_check_file(const char *text, const char *pointer, struct error *error)
{
    if (names_is_file(text)) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, pointer, "must be the path of a file in the repository");
}
