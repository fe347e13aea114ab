package socket

import "golang.org/x/sys/unix"

// Silence says for how many milliseconds the other side's host has acknowledged nothing although bytes are on their way to it, or the
// system's repeated question whether it takes more; 0 if neither is, as when its program reads slowly and the host answers that.
// waiting says that there are bytes which it has not acknowledged, on their way or not.
func Silence(fd uintptr) (milliseconds int, waiting bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false // there is nothing to hear on what is no connection
	}
	if info.Unacked > 0 || info.Probes > 1 { // of which an answer takes the count back
		milliseconds = int(info.Last_ack_recv)
	}
	return milliseconds, info.Unacked > 0 || info.Notsent_bytes > 0
}
