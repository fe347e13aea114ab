package process

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestProcessUse(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	before, err := ReadUsage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer stop()
	for ctx.Err() == nil { // use CPU time
		_ = strings.Repeat("x", 1<<16)
	}
	after, err := ReadUsage(os.Getpid())
	if err != nil || after.CPU-before.CPU < 1000 || before.Memory < 1<<20 {
		t.Errorf("usage: %v, %+v, then %+v; want more processor time and 1 MiB", err, before, after)
	}
	if share := after.UserShare(before); share < 0 || share > 1 {
		t.Errorf("a share of %v in user mode", share)
	}
	if _, err := ReadUsage(1 << 30); err == nil {
		t.Error("a process that does not exist has used something")
	}
}

func TestNumbers(t *testing.T) {
	for want, list := range map[string][]int{"": nil, "3": {3}, "0-2": {0, 1, 2}, "0,2-3,9": {0, 2, 3, 9}} {
		if got := FormatCPUs(list); got != want {
			t.Errorf("%v is %q, want %q", list, got, want)
		}
	}
}
