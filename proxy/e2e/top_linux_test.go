package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"penstock/config/testkit/tty"
	"penstock/proxy/e2e/rig"
	"penstock/proxy/operate/admin"
	"penstock/proxy/operate/status"
)

// TestTopOnce checks the output of `penstock top` without a terminal, as text and as JSON.
func TestTopOnce(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "admin: { token: " + rig.AdminToken + " }", Upstream: "concurrency: 1"})
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	p.WaitIdle()
	look := func(o admin.TopOptions) (string, error) {
		var out bytes.Buffer
		o.Edge.Admin, o.Out, o.Width = strings.TrimPrefix(p.Admin, "http://"), &out, 80
		err := admin.ShowTop(t.Context(), o)
		return out.String(), err
	}
	text, err := look(admin.TopOptions{Edge: admin.Edge{Token: rig.AdminToken}})
	if err != nil || !strings.Contains(text, "Healthy: 1 of 1 upstream takes calls") || !strings.Contains(text, "up-0") || strings.Contains(text, "\x1b") {
		t.Errorf("top: %v, want a healthy edge with up-0 and no escapes\n%s", err, text)
	}
	text, err = look(admin.TopOptions{Edge: admin.Edge{Token: rig.AdminToken}, JSON: true})
	var s status.Status
	if err != nil || json.Unmarshal([]byte(text), &s) != nil || s.Verdict.Level != status.LevelOK || s.Finished != 1 {
		t.Errorf("top as JSON: %v, want level %s and one call\n%s", err, status.LevelOK, text)
	}
	if _, err := look(admin.TopOptions{Edge: admin.Edge{Token: "wrong"}}); err == nil || !strings.Contains(err.Error(), "--token") {
		t.Errorf("with a wrong token: %v", err)
	}
}

// topSession is `penstock top` in a terminal.
type topSession struct {
	*tty.Terminal
	*rig.Process
	before string // the terminal's modes before the program started
}

func (p *penstock) startTop(width, height int, env ...string) *topSession {
	p.T.Helper()
	d := &topSession{Terminal: tty.Open(p.T, width, height)}
	d.before = d.Modes()
	cmd := exec.Command(rig.ProgramPath(p.T), "top", "--admin", p.Admin, "--interval", "100ms")
	cmd.Env = append(rig.CleanEnv(), append([]string{"PENSTOCK_ADMIN_TOKEN=" + rig.AdminToken, "TERM=xterm-256color", "NO_COLOR="}, env...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = d.Program, d.Program, d.Program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	d.Process = rig.StartCommand(p.T, cmd)
	return d
}

func (p *penstock) waitShown(d *topSession, what ...string) (v tty.View) {
	p.T.Helper()
	rig.WaitFor(p.T, rig.WaitTimeout, "the screen shows "+strings.Join(what, ", "), func() bool {
		v = d.View()
		text := strings.Join(v.Lines, "\n")
		for _, w := range what {
			if !strings.Contains(text, w) {
				return false
			}
		}
		return true
	})
	return v
}

// wantTopExit checks that the program exits with 0 and restores the terminal.
func (p *penstock) wantTopExit(d *topSession) {
	p.T.Helper()
	d.WantExit(rig.WaitTimeout, 0)
	rig.WaitFor(p.T, rig.WaitTimeout, "the screen is given back", func() bool { v := d.View(); return !v.Alternate && v.Cursor })
	if modes := d.Modes(); modes != d.before {
		p.T.Errorf("the terminal's modes were %s and are %s", d.before, modes)
	}
}

// TestTop checks that, in a terminal, the program shows calls as they change, responds to
// keystrokes, adapts to the window size, and restores the terminal.
func TestTop(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "admin: { token: " + rig.AdminToken + " }", Upstream: "concurrency: 1"})
	d := p.startTop(100, 24)
	if v := p.waitShown(d, "Healthy:", "[1 Models 1]", "0/1", "q quit"); !v.Alternate || v.Cursor || !v.Colours {
		t.Errorf("view = %+v, want another screen in colours without a cursor", v)
	}
	held := p.OpenStream(chatPath, p.ChatRequest(endlessStream))
	held.Next()
	p.waitShown(d, "1/1", "1 in flight")
	d.TypeKeys("3")
	p.waitShown(d, "[3 Calls", "streaming")
	d.Resize(40, 10) // the kernel sends a signal to the program
	rig.WaitFor(t, rig.WaitTimeout, "a frame of the new size, whole", func() bool {
		v := d.View()
		text := strings.Join(v.Lines, "\n")
		return len(v.Lines) == 10 && !v.Wrapped && strings.Contains(text, "1 2 [3 Calls") &&
			strings.Contains(text, "streaming") && strings.Contains(v.Lines[9], "q quit  1-6")
	})
	held.Disconnect()
	p.WaitIdle()
	p.waitShown(d, "left")
	d.TypeKeys("q")
	p.wantTopExit(d)

	d = p.startTop(80, 24, "NO_COLOR=1")
	if v := p.waitShown(d, "Healthy:", "q quit"); v.Colours {
		t.Error("there are colours")
	}
	d.Signal(syscall.SIGTERM)
	p.wantTopExit(d)

	d = p.startTop(80, 24, "TERM=dumb")
	d.WantExit(rig.WaitTimeout, 0)
	if v := p.waitShown(d, "UPSTREAM", "up-0"); v.Alternate || v.Colours {
		t.Errorf("a dumb terminal is taken for a clever one: %+v", v)
	}
	out, err := exec.Command(rig.ProgramPath(t), "top", "--admin", p.Admin, "--token", rig.AdminToken).Output()
	if err != nil || !strings.Contains(string(out), "up-0") || strings.Contains(string(out), "\x1b") {
		t.Errorf("where the output is no terminal: %v\n%s", err, out)
	}
}
