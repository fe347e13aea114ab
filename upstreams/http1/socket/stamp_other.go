//go:build unix && (!linux || race)

package socket

// StampArrivals does nothing here.
func StampArrivals(uintptr) {}

// RecvStamped is Recv: on this system the time of arrival is unknown.
func RecvStamped(fd uintptr, p []byte) (n int, at int64, err error) {
	n, err = Recv(fd, p)
	return n, 0, err
}
