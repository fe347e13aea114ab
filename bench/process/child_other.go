//go:build !unix

package process

import (
	"errors"
	"os"
	"os/exec"
)

// bindChild does nothing: the system has no process groups.
func bindChild(*exec.Cmd) {}

// killChild kills the child.
func killChild(p *os.Process) { _ = p.Kill() }

var errNoStop = errors.New("this system cannot stop a process for a while")

// Stop cannot stop the process here.
func (c *Child) Stop() error { return errNoStop }

// Continue does nothing: no process was stopped.
func (c *Child) Continue() error { return errNoStop }
