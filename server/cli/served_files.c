#include "cli/served_files.h"

#include "cli/place.h"
#include "log/log.h"

#include <string.h>

/* The libraries that `make static` fetches for the dashboard, and the description of the API. */
static const struct {
    const char *url, *name;
} beside[] = {
    {"/plotly.js", "static/plotly.js"},
    {"/swagger-ui.js", "static/swagger-ui.js"},
    {"/swagger-ui.css", "static/swagger-ui.css"},
    {"/openapi.yaml", "openapi.yaml"},
};

/* Adds a file beside the binary, unless the dashboard's directory has one of that name. */
static enum status add_file(struct static_files *files, const char *url, const char *name, struct error *error)
{
    char path[PLACE_PATH];
    if (static_files_find(files, url, NULL) != NULL || !place_find(name, 0, path, sizeof path)) return STATUS_OK;
    return place_name(static_files_add(files, url, path, error), path, error);
}

enum status served_files_load(const struct options *options, struct static_files **out, struct error *error)
{
    char path[PLACE_PATH];
    const char *directory = options_text(options, "--static");
    if (directory == NULL && place_find("static/index.html", 0, path, sizeof path)) {
        *strrchr(path, '/') = '\0';
        directory = path;
    }
    if (directory == NULL)
        log_warning(LOG_COMPONENT_SERVE, "no dashboard: its files are not where the binary is; see --static");
    enum status status = static_files_load(directory, out, error);
    if (status != STATUS_OK && directory != NULL) return place_name(status, directory, error);
    for (size_t i = 0; status == STATUS_OK && i < sizeof beside / sizeof beside[0]; i++)
        status = add_file(*out, beside[i].url, beside[i].name, error);
    if (status == STATUS_OK) status = static_files_seal(*out, error);
    return status;
}
