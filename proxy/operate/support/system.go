package support

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// systemFacts describes the machine on which the command runs. The edge may run on another machine.
func systemFacts(environ []string) []byte {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-14s %s\n", name, value)
		}
	}
	line("system", runtime.GOOS+"/"+runtime.GOARCH)
	line("kernel", valueAfterPrefix("/proc/sys/kernel/osrelease", ""))
	line("distribution", valueAfterPrefix("/etc/os-release", "PRETTY_NAME="))
	line("processors", strconv.Itoa(runtime.NumCPU()))
	line("processor", valueAfterPrefix("/proc/cpuinfo", "model name"))
	line("memory", valueAfterPrefix("/proc/meminfo", "MemTotal:"))
	line("free", valueAfterPrefix("/proc/meminfo", "MemAvailable:"))
	line("backlog", valueAfterPrefix("/proc/sys/net/core/somaxconn", ""))
	line("local ports", valueAfterPrefix("/proc/sys/net/ipv4/ip_local_port_range", ""))
	line("init", valueAfterPrefix("/proc/1/comm", ""))
	if _, err := os.Stat("/.dockerenv"); err == nil {
		line("container", "docker")
	} else if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		line("container", "kubernetes")
	}
	line("variables set", strings.Join(variableNames(environ), " "))
	return []byte(b.String())
}

func valueAfterPrefix(file, begins string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, begins); ok {
			return strings.Trim(rest, "\t\n :\"")
		}
	}
	return ""
}

var relevantVariables = []string{
	"PENSTOCK_", "OTEL_", "GOMEMLIMIT", "GOMAXPROCS", "GOGC", "GODEBUG", "LISTEN_", "NOTIFY_SOCKET",
}

// variableNames returns the names of environment variables. It omits the values, which may be
// secrets.
func variableNames(environ []string) (names []string) {
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if slices.ContainsFunc(relevantVariables, begins) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
