/* flags.h: X(name, number) for each flag that the plugin passes. */
X(cudaStreamNonBlocking, 1)
X(cudaEventBlockingSync, 1)
X(cudaEventDisableTiming, 2)
X(cudaDeviceScheduleBlockingSync, 4)
