//go:build !unix

package process

import (
	"errors"
	"os"
	"os/exec"
)

// bindChild does nothing, because this system has no process groups.
func bindChild(*exec.Cmd) {}

func killChild(p *os.Process) { _ = p.Kill() }

var errNoStop = errors.New("this system cannot stop a process for a while")

// Suspend is not supported on this system.
func (c *Child) Suspend() error { return errNoStop }

// Resume is not supported on this system.
func (c *Child) Resume() error { return errNoStop }
