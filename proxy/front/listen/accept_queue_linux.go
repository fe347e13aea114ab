package listen

import "golang.org/x/sys/unix"

// dropSYN attaches a classic BPF program to a listening socket. The program drops packets that open
// a connection (SYN without ACK) and passes all others. The program sees each packet from its TCP
// header on, and byte 13 of that header holds the flags. A client whose SYN is dropped sends it
// again after a second. By then the port is closed or another process is listening.
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

// acceptQueue returns how many connections are ready to be accepted. For a listening socket,
// tcp_info reports this in the field for unacknowledged segments (tcp_get_info in the kernel's
// net/ipv4/tcp.c).
func acceptQueue(fd uintptr) int {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return int(info.Unacked)
}
