//go:build unix && (!linux || race)

package socket

// EnableTimestamps does nothing on this system.
func EnableTimestamps(uintptr) {}

// RecvTimestamped calls Recv and returns 0 as the time of arrival, which is unknown on this system.
func RecvTimestamped(fd uintptr, p []byte) (n int, at int64, err error) {
	n, err = Recv(fd, p)
	return n, 0, err
}
