package load

import (
	"os"
	"runtime"
	"strings"

	"penstock/bench/process"
	"penstock/bench/result"
	"penstock/proxy/build"
)

// Environment returns a description of the machine and this process.
func Environment() result.Environment {
	e := result.Environment{
		Version: build.Version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		CPUs: runtime.NumCPU(), FileLimit: process.FileLimit(),
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				e.CPU = strings.TrimSpace(v)
				break
			}
		}
	}
	return e
}
