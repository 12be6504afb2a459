#include "kinds/checkpoint_place.h"

#include "kinds/roots.h"

bool checkpoint_place_known(const struct checkpoint *row)
{
    return row->path[0] != '\0' || row->commit[0] != '\0';
}

static enum status not_here(const struct checkpoint *row, const char *pointer, struct error *error)
{
    return error_set_at(
        error, STATUS_INVALID, pointer,
        "the files of checkpoint \"%.100s\" are not here: fetch them first with a run {\"kind\": \"fetch\", \"params\": "
        "{\"repo\": \"%.100s\", \"revision\": \"%.100s\"}}",
        row->name, row->repo, row->revision);
}

enum status checkpoint_place_open(const struct kind_context *context, struct checkpoint *row, struct checkpoint_place *out,
                                  struct error *error)
{
    return checkpoint_place_find(context->roots, context->data_directory, row, "", out, error);
}

enum status checkpoint_place_find(const char *const *roots, const char *data_directory, const struct checkpoint *row,
                                  const char *pointer, struct checkpoint_place *out, struct error *error)
{
    (void)data_directory;
    *out = (struct checkpoint_place){0};
    if (row->repo[0] != '\0') return not_here(row, pointer, error);
    return roots_resolve(roots, row->path, pointer, out->path, sizeof out->path, error);
}

void checkpoint_place_close(struct checkpoint_place *place)
{
    *place = (struct checkpoint_place){0};
}
