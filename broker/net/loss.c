#include "loss.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define SLOW_US_MIN   1000000u
#define SLOW_FACTOR   8u
#define ACK_RECENT_MS 500u

const char *loss_name(enum loss loss)
{
    static const char *const names[] = {"closed", "frozen", "cut", "silent"};
    return names[loss];
}

enum loss loss_of_silent(int fd, uint64_t liveness_us)
{
    uint64_t recent_ms = liveness_us / 4000u; /* shorter than the silence of a cut line when it is noticed */
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return LOSS_SILENT;
    /* A full window is probed, and the host acknowledges the probes: so data may be unacknowledged although the host
       lives. */
    if (info.tcpi_unacked == 0 || info.tcpi_last_ack_recv < (recent_ms < ACK_RECENT_MS ? recent_ms : ACK_RECENT_MS))
        return LOSS_FROZEN;
    return LOSS_CUT;
}

bool loss_slow(uint64_t oldest_running_us, uint64_t expect_us)
{
    return oldest_running_us > SLOW_US_MIN && oldest_running_us / SLOW_FACTOR > expect_us;
}
