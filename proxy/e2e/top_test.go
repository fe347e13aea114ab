package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/proxy/admin"
	"penstock/proxy/e2e/rig"
	"penstock/proxy/status"
)

// screen is a terminal that tests look at.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestTop(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "admin: { token: " + rig.AdminToken + " }", Upstream: "concurrency: 1"})
	p.Post(chatPath, p.Chat("")).WantStatus(200)
	p.Rest()
	look := func(o admin.TopOptions) (string, error) {
		var out bytes.Buffer
		o.Admin, o.Out, o.Width = strings.TrimPrefix(p.Admin, "http://"), &out, 80
		err := admin.Top(t.Context(), o)
		return out.String(), err
	}
	text, err := look(admin.TopOptions{Token: rig.AdminToken, Once: true})
	if err != nil || !strings.Contains(text, "Healthy: 1 of 1 upstream takes calls") || !strings.Contains(text, "up-0") || strings.Contains(text, "\x1b") {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = look(admin.TopOptions{Token: rig.AdminToken, JSON: true})
	var s status.Status
	if err != nil || json.Unmarshal([]byte(text), &s) != nil || s.Verdict.Level != status.LevelOK || s.Finished != 1 {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := look(admin.TopOptions{Token: "wrong", Once: true}); err == nil || !strings.Contains(err.Error(), "--token") {
		t.Errorf("with a wrong token: %v", err)
	}

	ctx, stop := context.WithCancel(t.Context())
	var tty screen
	ended := make(chan error)
	go func() {
		ended <- admin.Top(ctx, admin.TopOptions{Admin: p.Admin, Token: rig.AdminToken, Out: &tty, Width: 80, Interval: 100 * time.Millisecond, Colour: true})
	}()
	held := p.OpenStream(chatPath, p.Chat(endless))
	held.Next()
	rig.WaitFor(t, rig.Patience, "the screen shows the model full and the stream", func() bool {
		frames := strings.Split(tty.String(), "\x1b[H\x1b[J")
		last := frames[len(frames)-1]
		return strings.Contains(last, "1/1") && strings.Contains(last, "streaming")
	})
	held.Leave()
	stop()
	if err := <-ended; err != nil || !strings.HasSuffix(tty.String(), "\x1b[?1049l") {
		t.Errorf("the screen was not given back: %v", err)
	}
}
