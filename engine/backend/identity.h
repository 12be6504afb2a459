/* identity.h: identifies a device independently of its number. */
#ifndef BACKEND_IDENTITY_H
#define BACKEND_IDENTITY_H

struct device_identity {
    char name[80]; /* "NVIDIA H100 80GB HBM3" */
    char uuid[48]; /* "GPU-8f3c0b1e-…", as nvidia-smi shows it */
    char bus[24];  /* "0000:3b:00.0", domain, bus, device and function of PCI */
};

#endif
