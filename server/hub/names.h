/* names.h: the form of the hub's names. Names come from requests and from the hub, and become parts of addresses and of
 * paths below the data directory, so characters with a meaning there are refused. */
#ifndef HUB_NAMES_H
#define HUB_NAMES_H

#include "base/error.h"
#include "base/param.h"

enum { NAMES_REPO_MOST = 190, NAMES_REVISION_MOST = 200, NAMES_FILE_MOST = 400, NAMES_COMMIT = 41 };

/* "EleutherAI/pythia-160m" or "gpt2": one or two parts of letters, digits, "-", "_" and ".". */
bool names_is_repo(const char *text);
/* names_is_repo as a form for tables of parameters. Its pattern does not express that a part has at most 96
 * characters. */
extern const struct param_form names_repo_form;
/* A branch, tag or commit, by git's rules for references. */
bool names_is_revision(const char *text);
/* 40 hexadecimal digits. */
bool names_is_commit(const char *text);
/* `digits` lower-case hexadecimal digits and nothing else. */
bool names_is_hex(const char *text, size_t digits);
/* A path of a file in a repository: parts without ".", "..", backslashes and control characters. */
bool names_is_file(const char *text);

/* STATUS_INVALID at `pointer`, with the expected form. */
MUST_CHECK enum status names_check_repo(const char *text, const char *pointer, struct error *error);
MUST_CHECK enum status names_check_revision(const char *text, const char *pointer, struct error *error);
MUST_CHECK enum status names_check_file(const char *text, const char *pointer, struct error *error);

#endif
