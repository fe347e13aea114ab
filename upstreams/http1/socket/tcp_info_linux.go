package socket

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// UnackedMillis returns how many milliseconds have passed since the peer's host last acknowledged
// any bytes. It returns 0 unless bytes are in flight or a repeated window probe is unanswered.
// The host answers window probes even while its program reads slowly. waiting reports whether
// there are unacknowledged bytes, including unsent bytes.
func UnackedMillis(fd uintptr) (milliseconds int, waiting bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false // not a connection
	}
	if info.Unacked > 0 || info.Probes > 1 { // an answer resets the probe count
		milliseconds = int(info.Last_ack_recv)
	}
	return milliseconds, info.Unacked > 0 || info.Notsent_bytes > 0
}

// UnackedBytes returns the number of bytes that the peer's host has not acknowledged, including
// unsent bytes. Do not call it for a Unix socket, because the kernel counts a whole buffer until
// the peer has read all of that buffer.
func UnackedBytes(fd uintptr) int {
	var n int32
	// RawSyscall, because the call never blocks, and unix.IoctlGetInt may wake the Go runtime's
	// monitor thread.
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, fd, unix.SIOCOUTQ, uintptr(unsafe.Pointer(&n))) //nolint:gosec // the kernel writes an int
	if errno != 0 {
		return 0
	}
	return int(n)
}

const (
	keepAliveProbeSeconds = 1 // interval between keep-alive probes
	// keepAliveProbeCount is the number of unanswered probes after which the kernel closes the connection.
	// The kernel would close the connection after about the same time without ProbeEverySecond.
	keepAliveProbeCount = 30
	// ackOverdueMillis is the time in milliseconds after which an acknowledgement is overdue.
	ackOverdueMillis = 1000
)

// ProbeEverySecond makes the kernel send a keep-alive probe every second while no bytes arrive from
// the peer's host. The host's kernel answers even if the program on that host is busy. After half a
// minute without an answer, the edge's kernel closes the connection.
func ProbeEverySecond(fd uintptr) error {
	return errors.Join(
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAliveProbeCount),
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepAliveProbeSeconds),
		// Must be last, because it sets the timer.
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAliveProbeSeconds),
	)
}

// SilentMillis returns the milliseconds since the last byte or acknowledgement from the peer's
// host, and whether the host owes an acknowledgement. The host owes an acknowledgement if it has
// not answered two consecutive probes (see ProbeEverySecond), or has not acknowledged bytes that
// were sent at least a second ago.
func SilentMillis(fd uintptr) (milliseconds int, owed bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false
	}
	owed = info.Probes > 1 || info.Unacked > 0 && info.Last_data_sent >= ackOverdueMillis
	return int(min(info.Last_ack_recv, info.Last_data_recv)), owed
}
