package overhead

import (
	"fmt"
	"runtime"

	"penstock/bench/process"
)

// cpuPlacement assigns CPUs to processes. The proxy has a CPU to itself, so that it does not
// compete with the other processes. The zero value pins nothing.
type cpuPlacement struct {
	proxyCPUs, otherCPUs []int
	text                 string // human-readable description
}

// divideCPUs divides the CPUs of this process between the proxy and the other processes. Until undo
// is called, this process is pinned to p.otherCPUs.
func divideCPUs(free bool) (p cpuPlacement, undo func()) {
	all := process.AllowedCPUs()
	switch {
	case free:
		return cpuPlacement{text: "Not bound to processors, as asked for: the system moves client, engine and proxy about"}, func() {}
	case len(all) < 2:
		return cpuPlacement{text: "Not bound to processors, for there are not two that are known: client, engine and proxy take time from each other"}, func() {}
	}
	last := len(all) - 1
	p = cpuPlacement{proxyCPUs: all[last:], otherCPUs: all[:last]}
	unpin, err := process.PinProcess(p.otherCPUs)
	if err != nil {
		unpin()
		text := "Not bound to processors (" + err.Error() + "): client, engine and proxy take time from each other"
		return cpuPlacement{text: text}, func() {}
	}
	was := runtime.GOMAXPROCS(len(p.otherCPUs))
	p.text = fmt.Sprintf("Each proxy alone on processor %s, with one thread of work; client and engine on %s", process.FormatCPUs(p.proxyCPUs), process.FormatCPUs(p.otherCPUs))
	return p, func() {
		unpin()
		runtime.GOMAXPROCS(was)
	}
}
