#include "jobs/quantize/quantize_save.h"

#include "base/clock.h"
#include "jobs/quantize/quantize_saved.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define SAVE_SECONDS 60
#define SAVE_SHARE   20 /* the time between two savings is at least so many times that of the last saving */

void quantize_save_begin(struct quantize_save *keep)
{
    *keep = (struct quantize_save){.saved = clock_seconds()};
}

/* The file of each stream says which block comes next, so that files written at different times fit together. */
static struct quantize_saved fp_state(const struct quantize_member_state *member, struct hidden *fp, int64_t layer)
{
    return (struct quantize_saved){
        .fingerprint = quantize_member_fingerprint(member, false), .layer = layer, .streams = {fp}, .stream_count = 1};
}

static void fp_path(const struct quantize_member_state *member, const char *ending, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s.fp%s", member->request->save_path, ending);
}

/* Gives the file of `from` a second name beside the files of `to`, in place of an older file. */
static bool share(const struct quantize_member_state *from, const struct quantize_member_state *to)
{
    char source[PATH_MAX], beside[PATH_MAX], target[PATH_MAX];
    fp_path(from, "", source);
    fp_path(to, ".new", beside);
    fp_path(to, "", target);
    (void)unlink(beside);
    return link(source, beside) == 0 && rename(beside, target) == 0;
}

static enum status fp_write(const struct quantize_member_state *member, const struct quantize_member_state *written,
                            struct hidden *fp, int64_t layer, struct error *error)
{
    char path[PATH_MAX];
    const struct quantize_saved kept = fp_state(member, fp, layer);
    if (written != NULL && share(written, member)) return STATUS_OK;
    fp_path(member, "", path);
    return quantize_saved_write(path, member->pass->backend, &kept, error);
}

static bool due(const struct quantize_save *keep, double asked)
{
    const double since = clock_seconds() - keep->saved;
    if (asked != 0) return since >= asked;
    return since >= SAVE_SECONDS && since >= SAVE_SHARE * keep->took;
}

void quantize_save_write(struct quantize_save *keep, struct quantize_member_state *const *members, int64_t count,
                         struct hidden *fp, int64_t fp_layer)
{
    const struct quantize_member_state *written = NULL;
    const double began = clock_seconds();
    struct error error;
    if (count == 0 || !due(keep, members[0]->request->save_seconds)) return;
    for (int64_t i = 0; i < count; i++) {
        enum status status = STATUS_OK;
        if (members[i]->request->save_path == NULL) continue;
        if (fp != NULL) status = fp_write(members[i], written, fp, fp_layer, &error);
        if (status == STATUS_OK) written = members[i];
        if (status == STATUS_OK) status = quantize_member_save(members[i], &error);
        if (status != STATUS_OK)
            monitor_log(members[i]->request->monitor, "the streams to resume from are not kept: %s", error.detail);
    }
    keep->saved = clock_seconds();
    keep->took = keep->saved - began;
}

enum status quantize_save_fp_read(const struct quantize_member_state *member, struct hidden *fp, bool *found,
                                  int64_t *layer, struct error *error)
{
    char path[PATH_MAX];
    struct quantize_saved kept = fp_state(member, fp, 0);
    *found = false;
    if (member->request->save_path == NULL) return STATUS_OK;
    fp_path(member, "", path);
    const enum status status = quantize_saved_read(path, member->pass->backend, &kept, found, error);
    if (status == STATUS_OK && *found) *layer = kept.layer;
    return status;
}
