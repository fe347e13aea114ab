package process

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChildThatFails(t *testing.T) {
	for _, argv := range [][]string{{"/bin/sh", "-c", "echo no such thing >&2; exit 3"}, {filepath.Join(t.TempDir(), "nothing")}} {
		c, err := Start(context.Background(), "child", argv, nil, func(string) bool { return false })
		if err == nil {
			c.Kill()
			t.Fatalf("%v became ready", argv)
		}
		if len(argv) > 1 && !strings.Contains(err.Error(), "no such thing") {
			t.Errorf("%v does not say why", err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, stop)
	if _, err := Start(ctx, "child", []string{"/bin/sleep", "60"}, nil, func(string) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("Start with a context that ends: %v, want %v", err, context.Canceled)
	}
	t.Setenv("PENSTOCK_CONFIG", "x")
	if i := slices.IndexFunc(childEnv(), func(s string) bool { return strings.HasPrefix(s, "PENSTOCK_") }); i >= 0 {
		t.Error("a child inherits our settings")
	}
	if d := cmp.Diff("34", func() string {
		l := &stderrTail{}
		for range 2000 {
			_, _ = l.Write([]byte("12"))
		}
		_, _ = l.Write([]byte("34"))
		s := l.String()
		if len(s) > 1024 {
			return "too long"
		}
		return s[len(s)-2:]
	}()); d != "" {
		t.Error(d)
	}
}
