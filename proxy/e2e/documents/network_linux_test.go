package documents

import (
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownNetwork makes a child process run in a network that has only a loopback interface. If the
// system does not allow new networks, the child runs in the machine's network.
func ownNetwork() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if mayHaveNetwork() {
		setNewNetwork(attr)
	}
	return attr
}

func setNewNetwork(attr *syscall.SysProcAttr) {
	attr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
}

// mayHaveNetwork reports whether the system allows child processes with a separate network.
var mayHaveNetwork = sync.OnceValue(func() bool {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	setNewNetwork(cmd.SysProcAttr)
	return cmd.Run() == nil
})

// raiseLoopback brings up the loopback interface in a new network. In the machine's network, it has
// no effect.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFFLAGS, loopback); err != nil || loopback.Uint16()&unix.IFF_UP != 0 {
		return err
	}
	loopback.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback)
}
