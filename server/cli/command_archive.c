#include "backup/base.h"
#include "backup/prune.h"
#include "cli/command.h"
#include "cli/place.h"
#include "postgres/archive.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>

static const struct option_row archive_options[] = {
    PLACE_DATA_DIR,
    {"--archive", "DIR", NULL, NULL, OPTION_ONCE, "list, prune: this archive (that of the data directory)"},
    {"--keep-copies", "N", NULL, "0", OPTION_ONCE, "prune: keep what restores from the newest N copies need"},
    {"--keep-days", "N", NULL, "0", OPTION_ONCE, "prune: keep what a restore to any moment of the last N days needs"},
    {"--delete", NULL, NULL, NULL, OPTION_ONCE, "prune: remove the rest; else it is only told"},
    {0}};

enum { KEEP_MOST = 36500 };

/* "2026-11-23 15:04:07.123456" as --until of a restore takes it. */
static void print_moment(const char *moment)
{
    (void)printf("%.10sT%.15sZ", moment, moment[0] != '\0' ? moment + 11 : "");
}

static enum status find_archive(const struct options *options, char out[ARCHIVE_PATH], struct error *error)
{
    char data_directory[PLACE_PATH];
    bool there;
    const char *given = options_text(options, "--archive");
    if (given != NULL && snprintf(out, ARCHIVE_PATH, "%s", given) >= ARCHIVE_PATH)
        return error_set(error, STATUS_INVALID, "--archive: the path is too long");
    if (given != NULL) return STATUS_OK;
    out[0] = '\0';
    enum status status = place_data_look(options, data_directory, &there, error);
    if (status == STATUS_OK && there) status = archive_recorded(data_directory, out, error);
    if (status != STATUS_OK || out[0] != '\0') return status;
    return error_set(error, STATUS_NOT_FOUND,
                     "the data directory has no archive: `deltaq serve --archive DIR` begins one; one that was ended "
                     "is named by --archive");
}

/* ---- list ---- */

static void print_copies(const struct base_list *list)
{
    (void)puts("copy\twhole_at\tsegment\tbytes\tfault");
    for (int i = 0; i < list->count; i++) {
        const struct base_entry *entry = &list->items[i];
        (void)printf("%s\t", entry->name);
        if (entry->fault[0] == '\0')
            print_moment(entry->ended_at);
        else
            (void)putchar('-');
        (void)printf("\t%s\t%lld\t%s\n", entry->segment[0] != '\0' ? entry->segment : "-", (long long)entry->bytes,
                     entry->fault[0] != '\0' ? entry->fault : "-");
    }
}

/* Grouped by the first copy that a recovery can begin with. */
static enum status print_segments(const struct archive *archive, const struct base_list *list, struct error *error)
{
    struct archive_segments segments = {.gap = ""};
    struct archive_amount all;
    int first = 0;
    while (first < list->count && list->items[first].fault[0] != '\0') first++;
    enum status status = archive_segments_count(archive, &all, error);
    if (status == STATUS_OK && first < list->count)
        status = archive_segments_look(archive, list->items[first].segment, &segments, error);
    if (status != STATUS_OK) return status;
    (void)printf("%lld files in wal, %lld bytes\n", (long long)all.files, (long long)all.bytes);
    if (first == list->count) {
        (void)puts("no moment can be had: there is no copy to begin from (`deltaq archive copy` makes one)");
        return STATUS_OK;
    }
    (void)printf("moments can be had from ");
    print_moment(list->items[first].ended_at);
    if (segments.gap[0] != '\0')
        (void)printf(" on, but wal/%s.gz is missing: later ones only from a copy that needs it no more", segments.gap);
    (void)puts(segments.gap[0] != '\0' ? "" : " on");
    return STATUS_OK;
}

static enum status list_archive(const struct options *options, struct error *error)
{
    char directory[ARCHIVE_PATH], owner[ARCHIVE_PATH];
    struct archive archive = {.wal = -1};
    struct base_list list = {0};
    enum status status = find_archive(options, directory, error);
    if (status == STATUS_OK) status = archive_read(directory, owner, &archive, error);
    if (status == STATUS_OK) status = base_list_read(directory, &list, error);
    if (status == STATUS_OK) {
        (void)printf("%s, of %s\n", directory, owner);
        print_copies(&list);
        status = print_segments(&archive, &list, error);
    }
    base_list_reset(&list);
    archive_close(&archive);
    return status;
}

/* ---- copy ---- */

static enum status copy_into(const struct options *options, struct error *error)
{
    char directory[ARCHIVE_PATH], data_directory[PLACE_PATH];
    struct place_database database = {0};
    bool there;
    if (options_text(options, "--archive") != NULL)
        return error_set(error, STATUS_INVALID, "--archive: a copy goes into the archive of the data directory");
    enum status status = find_archive(options, directory, error);
    if (status == STATUS_OK) status = place_data_look(options, data_directory, &there, error);
    if (status == STATUS_OK) status = place_database_look(options, &database, error);
    if (status == STATUS_OK)
        status = base_make(database.connection, database.conninfo, directory, data_directory, error);
    place_database_close(&database);
    if (status == STATUS_OK) (void)printf("copied the database into %s\n", directory);
    return status;
}

/* ---- prune ---- */

static void print_pruned(const char *directory, const struct prune_found *found, bool removed)
{
    const long long files = (long long)found->segments.files, bytes = (long long)(found->bytes + found->segments.bytes);
    if (found->damaged > 0) (void)printf("%d copies are damaged and do not count: %s\n", found->damaged, found->fault);
    if (!found->enough) (void)puts("there are no more whole copies than what is kept needs: all of them stay");
    (void)printf("%s from %s: %d copies, %lld files of wal, %d that were not finished; %lld bytes\n",
                 removed ? "removed" : "would remove", directory, found->go, files, found->unfinished, bytes);
    (void)printf("%d copies stay", found->stay);
    if (found->since[0] != '\0') {
        (void)printf(", and every moment from ");
        print_moment(found->since);
        (void)printf(" on");
    }
    (void)puts(removed ? "" : "; --delete removes the rest");
}

static enum status prune(const struct options *options, struct error *error)
{
    char directory[ARCHIVE_PATH];
    struct prune_rule rule;
    struct prune_found found;
    const bool remove = options_text(options, "--delete") != NULL;
    enum status status = options_integer(options, "--keep-copies", 0, KEEP_MOST, &rule.copies, error);
    if (status == STATUS_OK) status = options_integer(options, "--keep-days", 0, KEEP_MOST, &rule.days, error);
    if (status == STATUS_OK && rule.copies == 0 && rule.days == 0)
        status = error_set(error, STATUS_INVALID, "what shall stay? give --keep-copies N, --keep-days N, or both");
    if (status == STATUS_OK) status = find_archive(options, directory, error);
    if (status == STATUS_OK) status = prune_run(directory, &rule, time(NULL), remove, &found, error);
    if (status == STATUS_OK) print_pruned(directory, &found, remove);
    return status;
}

static const struct action {
    const char *word;
    enum status (*run)(const struct options *options, struct error *error);
} actions[] = {{"list", list_archive}, {"copy", copy_into}, {"prune", prune}};

static int archive_run(const struct options *options)
{
    struct error error;
    (void)umask(077);
    (void)signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; options->positional != NULL && i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].word, options->positional) == 0)
            return actions[i].run(options, &error) == STATUS_OK ? 0 : place_fail("archive", &error);
    (void)fputs("deltaq archive: expected `deltaq archive list`, `deltaq archive copy` or `deltaq archive prune"
                " --keep-copies N|--keep-days N`\n",
                stderr);
    return 2;
}

const struct command command_archive = {
    .name = "archive",
    .usage = "list|copy|prune",
    .help = "Look at what `serve --archive DIR` keeps, copy into it, remove what is too old",
    .options = archive_options,
    .run = archive_run,
    .words = 1,
    .notes =
        "list   its copies of the database, and from when on a restore can have every moment\n"
        "copy   one more copy to begin from, while the server runs: less is to be replayed, and older ones may go\n"
        "prune  says what is older than the copies that stay need, and with --delete removes it. The copies that\n"
        "       stay are read and held against their SHA-256 first; with both options what either needs stays.\n"};
