package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"penstock/proxy/access/auth"
)

// ProgramEdge is an edge that runs as a process of the built program. It starts in about 20 ms.
type ProgramEdge struct {
	*Edge
	*Process

	Dir  string
	Path string
	Text string

	ended bool
}

// StartProgram runs engines and `penstock serve --config FILE` until the test ends.
func StartProgram(t testing.TB, s Setup) *ProgramEdge {
	t.Helper()
	if s.Log != nil || s.Lookup != nil {
		t.Fatal("the setup has what only an edge in this process can have")
	}
	p := &ProgramEdge{Edge: newEdge(t, s), Dir: t.TempDir()}
	plain, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	p.Key = plain
	for name, text := range s.Files {
		p.Write(name, strings.ReplaceAll(text, "{{hash}}", hash))
	}
	rest := s.renderConfig(p.Engines, hash, p.Dir)
	if own := strings.Replace(rest, "log: { ", "log: { level: debug, ", 1); own != rest {
		rest = own
	} else {
		rest = "log: { level: debug }\n" + rest
	}
	secure := ""
	if s.AdminTLS != "" {
		secure = ", tls: { " + s.AdminTLS + " }"
	}
	if s.Admin != "" {
		secure += ", " + s.Admin
	}
	p.Text = "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0" + secure + " }\n" + rest
	p.Path = p.Write("penstock.yaml", p.Text)
	p.run()
	t.Cleanup(p.End)
	return p
}

func (p *ProgramEdge) run() {
	p.T.Helper()
	cmd := Command(p.T, "serve", "--config", p.Path)
	if under := p.Setup.Under; under != nil {
		cmd = exec.Command(under[0], append(under[1:len(under):len(under)], cmd.Args...)...)
		cmd.Env = CleanEnv()
	}
	if p.Setup.Stderr != nil {
		cmd.Stderr = p.Setup.Stderr
	}
	p.ReplaceProcess(StartCommand(p.T, cmd))
	p.endBeforeDeadline(func() { _ = cmd.Process.Kill() })
	m := p.WaitOutput(`serving (https?://(\S+))/v1 \(admin: (https?://[^)]+)\)`)
	p.URL, p.Addr, p.Admin = m[1], m[2], m[3]
	p.waitUpstreamsUp()
}

// ReplaceProcess replaces the edge's process by next. The rig stops next when the test ends.
func (p *ProgramEdge) ReplaceProcess(next *Process) { p.Process, p.Log = next, next.Err }

// Restart runs the program again on the same address. The program must have exited.
func (p *ProgramEdge) Restart() {
	p.T.Helper()
	p.Write("penstock.yaml", strings.Replace(p.Text, "listen: 127.0.0.1:0", "listen: "+p.Addr, 1))
	p.run()
}

// Write atomically writes a file next to the configuration, and returns its path.
func (p *ProgramEdge) Write(name, text string) string {
	p.T.Helper()
	path := filepath.Join(p.Dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		p.T.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		p.T.Fatal(err)
	}
	return path
}

// Reload makes the program read its configuration again. It returns the status (200 or 422) and
// the body of the response.
func (p *ProgramEdge) Reload() (status int, body string) {
	p.T.Helper()
	r := p.Fetch("POST", p.Admin+"/-/reload")
	return r.Status, r.Body
}

// End checks that the program is idle, stops it and checks its log. The rig calls End when the test
// ends.
func (p *ProgramEdge) End() {
	if p.ended {
		return
	}
	p.ended = true
	if !p.HasExited() { // the test may have ended the program
		if !p.Setup.Untidy {
			p.WaitIdle()
			checkIdleMetrics(p.Edge)
		}
		// otherwise, the edge would wait up to a second for keep-alive connections
		p.Client.CloseIdleConnections()
		p.Signal(syscall.SIGTERM)
		if !p.Setup.Untidy {
			p.WantExit(WaitTimeout+5*time.Second, 0)
		}
	}
	if !p.Setup.Untidy {
		p.checkLog()
		WantNoLeak(p.T, "standard output", p.Out.String(), p.Key)
	}
}
