//go:build !unix

package process

import (
	"os"
	"os/exec"
)

// bindChild does nothing: the system has no process groups.
func bindChild(*exec.Cmd) {}

// killChild kills the child.
func killChild(p *os.Process) { _ = p.Kill() }
