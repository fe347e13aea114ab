//go:build unix && (!linux || race)

package socket

// StampArrivals does nothing on this system.
func StampArrivals(uintptr) {}

// RecvStamped is Recv, because the time of arrival is unknown on this system.
func RecvStamped(fd uintptr, p []byte) (n int, at int64, err error) {
	n, err = Recv(fd, p)
	return n, 0, err
}
