package overhead

import (
	"fmt"
	"runtime"

	"penstock/bench/process"
)

// placement is the assignment of processors in an overhead measurement. The proxy has a processor
// to itself, so that the proxy and the other processes do not take time from each other. The zero
// value binds nothing.
type placement struct {
	proxy, rest []int
	text        string // for people
}

// place divides this process's processors, and binds the process to its own processors until undo
// is called.
func place(free bool) (p placement, undo func()) {
	all := process.Processors()
	switch {
	case free:
		return placement{text: "Not bound to processors, as asked for: the system moves client, engine and proxy about"}, func() {}
	case len(all) < 2:
		return placement{text: "Not bound to processors, for there are not two that are known: client, engine and proxy take time from each other"}, func() {}
	}
	last := len(all) - 1
	p = placement{proxy: all[last:], rest: all[:last]}
	unpin, err := process.PinProcess(p.rest)
	if err != nil {
		unpin()
		text := "Not bound to processors (" + err.Error() + "): client, engine and proxy take time from each other"
		return placement{text: text}, func() {}
	}
	was := runtime.GOMAXPROCS(len(p.rest))
	p.text = fmt.Sprintf("Each proxy alone on processor %s, with one thread of work; client and engine on %s", process.Numbers(p.proxy), process.Numbers(p.rest))
	return p, func() {
		unpin()
		runtime.GOMAXPROCS(was)
	}
}
