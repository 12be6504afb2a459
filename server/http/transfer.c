#include "http/transfer.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

bool transfer_bytes(int descriptor, uint64_t *out)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
    *out = info.tcpi_bytes_received + info.tcpi_bytes_acked;
    return length >= offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received;
}

bool transfer_is_slow(struct transfer *transfer, uint64_t bytes, int64_t now)
{
    if (transfer->since_ms != 0 && now - transfer->since_ms < TRANSFER_WINDOW_MILLISECONDS) return false;
    const bool slow = transfer->since_ms != 0 && bytes - transfer->bytes < TRANSFER_LEAST_BYTES;
    *transfer = (struct transfer){now, bytes};
    return slow;
}
