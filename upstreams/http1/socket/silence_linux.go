package socket

import (
	"errors"

	"golang.org/x/sys/unix"
)

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

// Unacked returns how many bytes the other side's host has not acknowledged, on their way or not.
func Unacked(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

const (
	questionEvery = 1  // second between two of the questions that Question asks for
	questionCount = 30 // without an answer before the system itself gives the connection up, much like without Question
	unackedFor    = 1000
)

// Question makes the system ask the other side's host once a second whether the connection is still there, whenever nothing comes
// from it. The host answers for its program, however busy that is. The system gives up after half a minute.
func Question(fd uintptr) error {
	return errors.Join(
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPCNT, questionCount),
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, questionEvery),
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, questionEvery), // the last one sets the timer
	)
}

// Unanswered says for how many milliseconds neither a byte nor an acknowledgement has come from the other side's host, and whether
// it owes one: to two questions (see Question) in a row, or to bytes that left a second ago or earlier.
func Unanswered(fd uintptr) (milliseconds int, owed bool) {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false
	}
	owed = info.Probes > 1 || info.Unacked > 0 && info.Last_data_sent >= unackedFor
	return int(min(info.Last_ack_recv, info.Last_data_recv)), owed
}
