package socket

import (
	"errors"

	"golang.org/x/sys/unix"
)

// UnackedFor returns for how many milliseconds the peer's host has acknowledged nothing, although
// bytes or the kernel's repeated window probes are in flight. If nothing is in flight, it returns
// 0. A host whose program reads slowly answers the window probes. The result waiting says whether
// there are unacknowledged bytes, sent or not.
func UnackedFor(fd uintptr) (milliseconds int, waiting bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false // not a connection, so nothing can come
	}
	if info.Unacked > 0 || info.Probes > 1 { // an answer resets the probe count
		milliseconds = int(info.Last_ack_recv)
	}
	return milliseconds, info.Unacked > 0 || info.Notsent_bytes > 0
}

// UnackedBytes returns how many bytes the peer's host has not acknowledged, sent or not. For a Unix
// socket it returns 0: the kernel counts whole buffers there, until the peer has read all of one.
func UnackedBytes(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	if domain, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain == unix.AF_UNIX {
		return 0
	}
	return n
}

const (
	probeSeconds = 1 // how far apart the probes of ProbeEverySecond are
	// probeCount says after how many unanswered probes the kernel closes the connection. That takes
	// about as long as without ProbeEverySecond.
	probeCount = 30
	// ackOverdue says when an acknowledgement is overdue, in milliseconds after the bytes were
	// sent.
	ackOverdue = 1000
)

// ProbeEverySecond makes the kernel send a keep-alive probe in every second without bytes from
// the peer's host. The host's kernel answers, however busy its program is. After half a minute
// without an answer the kernel closes the connection.
func ProbeEverySecond(fd uintptr) error {
	return errors.Join(
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPCNT, probeCount),
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, probeSeconds),
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, probeSeconds), // the last one sets the timer
	)
}

// SilentFor returns for how many milliseconds neither a byte nor an acknowledgement has come from
// the peer's host, and whether the host owes one: to two probes in a row (see ProbeEverySecond), or
// to bytes sent a second ago or earlier.
func SilentFor(fd uintptr) (milliseconds int, owed bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false
	}
	owed = info.Probes > 1 || info.Unacked > 0 && info.Last_data_sent >= ackOverdue
	return int(min(info.Last_ack_recv, info.Last_data_recv)), owed
}
