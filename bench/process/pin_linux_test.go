package process

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// allowedCPUsLine returns the line in /proc that lists the CPUs that a process or thread may run
// on.
func allowedCPUsLine(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "Cpus_allowed_list:")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// TestChildOnAProcessor checks that a child process can be pinned to one CPU without changing the
// CPUs of this process.
func TestChildOnAProcessor(t *testing.T) {
	all := AllowedCPUs()
	if len(all) == 0 {
		t.Fatal("no processors")
	}
	last := all[len(all)-1:]
	c, err := Start(t.Context(), "child", []string{"/bin/sleep", "60"}, last, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Kill()
	if got := allowedCPUsLine(t, "/proc/"+strconv.Itoa(c.Cmd.Process.Pid)); got != FormatCPUs(last) {
		t.Errorf("the child runs on %s, want %s", got, FormatCPUs(last))
	}
	threads, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if got := allowedCPUsLine(t, thread); got != FormatCPUs(all) {
			t.Errorf("a thread of ours may run on %s, want %s", got, FormatCPUs(all))
		}
	}
	if c, err := Start(t.Context(), "child", []string{"/bin/sleep", "60"}, []int{1 << 9}, nil); err == nil {
		c.Kill()
		t.Error("a child runs on a processor that does not exist")
	}
}
