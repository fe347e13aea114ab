package listen

import "golang.org/x/sys/unix"

// dropSYN attaches a classic BPF program to a listening socket. The program drops packets that open
// a connection (SYN without ACK), and accepts all other packets. Offsets are relative to the start
// of the TCP header. Byte 13 of the header contains the flags. A client whose SYN was dropped sends
// another SYN a second later. By then, the port is closed or another process listens on it.
func dropSYN(fd uintptr) {
	const syn, ack = 0x02, 0x10
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: syn},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
	}
	_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}

// acceptQueueLen returns how many connections are waiting to be accepted. For a listening socket,
// the kernel reports this number as the number of unacknowledged segments in tcp_info (tcp_get_info
// in net/ipv4/tcp.c).
func acceptQueueLen(fd uintptr) int {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return int(info.Unacked)
}
