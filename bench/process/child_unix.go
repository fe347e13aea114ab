//go:build unix

package process

import (
	"os"
	"syscall"
)

// killChild kills the child's process group, and the child itself in case the group does not exist
// yet.
func killChild(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	_ = p.Kill()
}

// Stop stops the process, as if it hung.
func (c *Child) Stop() error { return c.Cmd.Process.Signal(syscall.SIGSTOP) }

// Continue resumes a stopped process.
func (c *Child) Continue() error { return c.Cmd.Process.Signal(syscall.SIGCONT) }
