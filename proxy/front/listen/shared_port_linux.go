package listen

import (
	"bufio"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// CountOtherListeners returns how many other sockets listen on the address of ln (SO_REUSEPORT).
// The kernel distributes new connections among all of them. If the number is unknown,
// CountOtherListeners returns 0. It stops reading the file in /proc at the first socket that is not
// listening, so its cost depends only on the number of listening sockets.
func CountOtherListeners(ln net.Listener) int {
	inode, ok := socketInode(ln)
	if !ok {
		return 0
	}
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		table, err := os.Open(name)
		if err != nil {
			continue
		}
		n, found := countOtherSockets(table, inode)
		_ = table.Close()
		if found {
			return n
		}
	}
	return 0
}

// socketInode returns the inode number of a socket, which identifies it in /proc.
func socketInode(ln net.Listener) (inode uint64, ok bool) {
	socket, ok := ln.(syscall.Conn)
	if !ok {
		return 0, false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, false
	}
	var stat syscall.Stat_t
	ok = false
	err = raw.Control(func(fd uintptr) { ok = syscall.Fstat(int(fd), &stat) == nil })
	return stat.Ino, ok && err == nil
}

// countOtherSockets counts the other listeners on the address of the socket with the given inode. table
// has the format of /proc/net/tcp (proc(5)), which lists listening sockets first. found is false if
// the socket is not in the table.
func countOtherSockets(table io.Reader, inode uint64) (others int, found bool) {
	const local, state, number, listens = 1, 3, 9, "0A"
	var ours string
	at := map[string]int{}
	lines := bufio.NewScanner(table)
	lines.Scan() // skips the column names
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) <= number || f[state] != listens {
			break
		}
		at[f[local]]++
		if f[number] == strconv.FormatUint(inode, 10) {
			ours, found = f[local], true
		}
	}
	if !found {
		return 0, false
	}
	return at[ours] - 1, true
}
