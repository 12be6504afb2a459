/* device_choice.h: which device a worker uses. The driver is asked in a child process (base/trial.h), so that one that
 * crashes or hangs takes no worker and no server with it, and the device is held to the CPU there
 * (selftest/selftest.h): with `--device auto` one that passes is used, and the CPU does the work of one that does not;
 * a device that was named must pass. Call these before the process has used a device itself, with no other thread
 * running. */
#ifndef CLI_DEVICE_CHOICE_H
#define CLI_DEVICE_CHOICE_H

#include "backend/identity.h"
#include "cli/place.h"
#include "selftest/selftest.h"
#include "store/workers.h"

/* A device, as a child found it. */
struct device_trial {
    char device[PLACE_DEVICE_NAME]; /* "cpu", "cuda:1" */
    int64_t count;                  /* devices of --device (place_device) */
    bool sound;                     /* nothing is there that should work and does not (cuda_look) */
    char found[400]; /* of all of them: "2 CUDA devices, driver for CUDA 12.4, …", or why there is none */
    struct device_identity identity;
    bool tested; /* the self-test was begun */
    enum status status;
    char failure[480]; /* of the self-test; "": it passed */
    struct selftest_report report;
};

/* The one of `device`, an option --device, that worker number `which` has; with `test`, after its self-test, whose
 * outcome is in *out and not in the status. STATUS_INVALID and STATUS_UNSUPPORTED of place_device; STATUS_DEVICE: the
 * driver crashed or hung before a device was found. */
MUST_CHECK enum status device_choice_try(const char *device, int64_t which, bool test, struct device_trial *out,
                                         struct error *error);

/* What a worker of this number, with the option --device `asked`, uses: "cpu", "cuda:1" in `device`, and what it says
 * of it. `faults` of worker.h; -1: nobody supervises it. on_cpu: how many workers may use the CPU in the place of
 * devices that failed; the others take no runs. STATUS_DEVICE: a device that was named failed, or one that a server had
 * found is gone; statuses of device_choice_try. *out->selftest is new (json_decref), or NULL. */
struct device_choosing {
    int64_t which, on_cpu;
    int faults;
};
MUST_CHECK enum status device_choice_make(const char *asked, const struct device_choosing *how,
                                          char device[PLACE_DEVICE_NAME], struct worker_device *out, json_t **selftest,
                                          struct error *error);

#endif
