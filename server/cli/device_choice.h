/* device_choice.h: chooses the device of a worker. A child process asks the driver (base/trial.h), so that a driver
 * that crashes or hangs takes no worker and no server with it, and the child compares the device with the CPU
 * (selftest/selftest.h). With `--device auto` a device that passes is used, and the CPU replaces one that fails; a
 * device that was named must pass. Call these before the process has used a device itself, with no other thread
 * running. */
#ifndef CLI_DEVICE_CHOICE_H
#define CLI_DEVICE_CHOICE_H

#include "backend/identity.h"
#include "cli/place.h"
#include "selftest/selftest.h"
#include "store/workers.h"

/* What the child found out about a device. */
struct device_trial {
    char device[PLACE_DEVICE_NAME]; /* "cpu", "cuda:1" */
    int64_t count;                  /* number of devices that --device selects (place_device) */
    bool sound;                     /* false when a device is there that should work and does not (cuda_look) */
    char found[400];                /* all devices: "2 CUDA devices, driver for CUDA 12.4, …", or why there is none */
    struct device_identity identity;
    int64_t memory_bytes; /* the most that a run may take of it; 0: not known */
    bool tested;          /* the self-test was started */
    enum status status;
    char failure[480]; /* why the self-test failed; "": it passed */
    struct selftest_report report;
};

/* Tries the device that worker number `which` gets by the option --device `device`. With `test` its self-test runs,
 * whose outcome is in *out and not in the status. STATUS_INVALID and STATUS_UNSUPPORTED of place_device; STATUS_DEVICE:
 * the driver crashed or hung before a device was found. */
MUST_CHECK enum status device_choice_try(const char *device, int64_t which, bool test, struct device_trial *out,
                                         struct error *error);

/* Chooses the device of worker number `which` with the option --device `asked`: "cpu" or "cuda:1" in `device`, and what
 * the worker reports about it in *out. `faults`: see worker.h; -1: nobody supervises the worker. on_cpu: how many
 * workers may use the CPU in place of failed devices; the others take no runs. STATUS_DEVICE: a named device failed, or
 * one that a server had found is gone; statuses of device_choice_try. *out->selftest is new (json_decref), or NULL. */
struct device_choosing {
    int64_t which, on_cpu;
    int faults;
};
MUST_CHECK enum status device_choice_make(const char *asked, const struct device_choosing *how,
                                          char device[PLACE_DEVICE_NAME], struct worker_device *out, json_t **selftest,
                                          struct error *error);

#endif
