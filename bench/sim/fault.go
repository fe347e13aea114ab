package sim

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"penstock/bench/sim/textgen"
)

// Fault is injected misbehaviour and when it happens.
type Fault struct {
	// Spec is NAME[=VALUE][;param=value…], several joined by "+": "cut-after=3",
	// "status=503;retry-after=2", "crlf+no-done". Faults lists the names. Every fault takes
	// delay=DURATION: wait so long before it.
	Spec string `json:"fault"`
	// Count is how many requests (or connections, for refuse and noread) it hits; 0: all.
	Count int `json:"count"`
	// After is how many pass before the first one is hit.
	After int `json:"after"`
	// Share is the part of them that is hit, 0 to 1; 0 means all.
	Share float64 `json:"share"`
	// Path limits it to paths with this prefix, "*" is every path. Empty: inference only, so that
	// health, models and metrics keep answering. refuse and noread happen before there is a path and
	// hit every connection.
	Path string `json:"path"`
}

// ParseFault checks a spec, for specs that come from outside.
func ParseFault(spec string) (Fault, error) {
	if _, err := parsePlan(spec); err != nil {
		return Fault{}, err
	}
	return Fault{Spec: spec}, nil
}

// SetFault replaces the schedule: each request is hit by the first fault that applies to it. No
// fault, or one with an empty Spec, clears it. It panics on a Spec that ParseFault refuses: that is
// a mistake in a test.
func (e *Engine) SetFault(faults ...Fault) {
	if err := e.schedule.load(faults); err != nil {
		panic("sim: " + err.Error())
	}
}

// schedule decides which requests are hit.
type schedule struct {
	armed atomic.Bool // false: nothing to look at
	rng   atomic.Uint64
	mu    sync.Mutex
	list  []*scheduled
}

type scheduled struct {
	Fault
	plan *plan
	seen int
	hits int
}

func (s *schedule) load(faults []Fault) error {
	var list []*scheduled
	for _, f := range faults {
		if f.Spec == "" {
			continue
		}
		p, err := parsePlan(f.Spec)
		if err != nil {
			return err
		}
		if f.Count < 0 || f.After < 0 || f.Share < 0 || f.Share > 1 {
			return fmt.Errorf("fault %q: count and after cannot be below 0, share is 0 to 1", f.Spec)
		}
		list = append(list, &scheduled{Fault: f, plan: p})
	}
	s.set(list)
	return nil
}

func (s *schedule) set(list []*scheduled) {
	s.mu.Lock()
	s.list = list
	s.armed.Store(len(list) > 0)
	s.mu.Unlock()
}

// accept is the fault for a new connection, if any.
func (s *schedule) accept() *plan {
	return s.pick(func(f *scheduled) bool { return f.plan.atAccept() })
}

// take is the fault for a request, if any.
func (s *schedule) take(path string) *plan {
	return s.pick(func(f *scheduled) bool {
		switch {
		case f.plan.atAccept(), strings.HasPrefix(path, "/sim/"):
			return false
		case f.Path == "":
			return inference[path] != f.plan.parts[0].f.pages
		}
		return f.Path == "*" || strings.HasPrefix(path, f.Path)
	})
}

func (s *schedule) pick(applies func(*scheduled) bool) *plan {
	if !s.armed.Load() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.list {
		if !applies(f) || f.Count > 0 && f.hits >= f.Count {
			continue
		}
		f.seen++
		if f.seen <= f.After {
			continue
		}
		if f.Share > 0 && float64(textgen.Mix(s.rng.Add(1), 3)>>11)/(1<<53) >= f.Share {
			continue
		}
		f.hits++
		return f.plan
	}
	return nil
}

// faultTable is every fault, in the order of --faults.
var faultTable = slices.Concat(connectionFaults, headFaults, bodyFaults, streamFaults, formFaults)

// plan is a parsed spec.
type plan struct {
	spec  string
	parts []part
}

type part struct {
	f *fault
	a args
}

func parsePlan(spec string) (*plan, error) {
	p := &plan{spec: spec}
	for one := range strings.SplitSeq(spec, "+") {
		head, rest, _ := strings.Cut(one, ";")
		name, value, has := strings.Cut(head, "=")
		f := faultByName(strings.TrimSpace(name))
		if f == nil {
			return nil, fmt.Errorf("unknown fault %q; `penstock sim --faults` lists them", name)
		}
		a := args{value: value, has: has, params: map[string]string{}}
		for rest != "" {
			var kv string
			kv, rest, _ = strings.Cut(rest, ";")
			k, v, ok := strings.Cut(kv, "=")
			if !ok {
				v = "1"
			}
			a.params[strings.TrimSpace(k)] = v
		}
		var t misbehaviour
		f.twist(&t, &a)
		a.duration("delay", 0)
		for k := range a.params {
			if !slices.Contains(a.used, k) {
				a.fail("unknown parameter %q", k)
			}
		}
		if has && !a.valued {
			a.fail("takes no value")
		}
		if a.err != nil {
			return nil, fmt.Errorf("fault %q: %w", one, a.err)
		}
		p.parts = append(p.parts, part{f, a})
	}
	return p, nil
}

// apply makes t misbehave.
func (p *plan) apply(t *misbehaviour) {
	for i := range p.parts {
		a := p.parts[i].a // a copy: reading notes what was read
		a.used = nil
		p.parts[i].f.twist(t, &a)
		if d := a.duration("delay", 0); d > 0 {
			t.delay = d
		}
	}
}

// atAccept reports whether the fault happens when a connection is made.
func (p *plan) atAccept() bool { return p.parts[0].f.accept != nil }

// accept acts the fault out on a new connection; true: the connection is done with.
func (p *plan) accept(c *conn) bool {
	p.parts[0].f.accept(c)
	return true
}

// args is the value and the parameters of one fault. Reading a malformed one notes the error and
// gives the default.
type args struct {
	value  string
	has    bool
	params map[string]string
	used   []string
	valued bool
	err    error
}

func (a *args) fail(format string, v ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, v...)
	}
}

// number is the value after the name.
func (a *args) number(def int) int {
	a.valued = true
	if !a.has {
		return def
	}
	return a.atoi("value", a.value)
}

// span is the value after the name, as a duration.
func (a *args) span(def time.Duration) time.Duration {
	a.valued = true
	if !a.has {
		return def
	}
	d, err := duration(a.value)
	if err != nil || d <= 0 {
		a.fail("%q is not a duration above 0", a.value)
		return def
	}
	return d
}

// word is the value after the name, as text.
func (a *args) word() string {
	a.valued = true
	return a.value
}

func (a *args) atoi(what, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > math.MaxInt32 {
		a.fail("%s %q is not a number from 0", what, s)
		return 0
	}
	return n
}

func (a *args) str(name, def string) string {
	a.used = append(a.used, name)
	if v, ok := a.params[name]; ok {
		return v
	}
	return def
}

func (a *args) num(name string, def int) int {
	if s := a.str(name, ""); s != "" {
		return a.atoi(name, s)
	}
	return def
}

func (a *args) flag(name string) bool {
	switch s := a.str(name, ""); s {
	case "":
		return false
	case "1", "true":
		return true
	case "0", "false":
		return false
	default:
		a.fail("%s is 1 or 0", name)
		return false
	}
}

func (a *args) duration(name string, def time.Duration) time.Duration {
	s := a.str(name, "")
	if s == "" {
		return def
	}
	d, err := duration(s)
	if err != nil || d < 0 {
		a.fail("%s %q is not a duration", name, s)
		return def
	}
	return d
}

func (a *args) oneOf(name, def string, allowed ...string) string {
	s := a.str(name, def)
	if !slices.Contains(allowed, s) {
		a.fail("%s is one of %s", name, strings.Join(allowed, ", "))
	}
	return s
}

// FaultInfo is one row of the table of faults.
type FaultInfo struct{ Name, Usage, Text string }

// Faults is the table of faults, in its order.
func Faults() []FaultInfo {
	var rows []FaultInfo
	for i := range faultTable {
		f := &faultTable[i]
		rows = append(rows, FaultInfo{f.name, f.name + f.usage, f.text})
	}
	return rows
}

// fault is one row of the table.
type fault struct {
	name, usage, text string
	accept            func(*conn) // set for what happens before a request is read
	pages             bool        // hits pages, not inference, where no path is given
	twist             func(*misbehaviour, *args)
}

// faultByName looks a fault up. The table's functions reach back here through the engine, so the
// index is made on first use.
func faultByName(name string) *fault {
	faultIndex.once.Do(func() {
		faultIndex.m = map[string]*fault{}
		for i := range faultTable {
			faultIndex.m[faultTable[i].name] = &faultTable[i]
		}
	})
	return faultIndex.m[name]
}

var faultIndex struct {
	once sync.Once
	m    map[string]*fault
}

// faultsText is the table for people.
func faultsText() string {
	var b strings.Builder
	width := 0
	for _, f := range Faults() {
		width = max(width, len(f.Usage))
	}
	width = min(width, 44)
	for _, f := range Faults() {
		sep := strings.Repeat(" ", max(0, width-len(f.Usage)))
		if len(f.Usage) > width {
			sep = "\n" + strings.Repeat(" ", width)
		}
		fmt.Fprintf(&b, "%s%s  %s\n", f.Usage, sep, f.Text)
	}
	b.WriteString("\nNAME[=VALUE][;param=value…], several joined by +; every fault takes delay=DURATION.\n" +
		"By header X-Sim-Fault, by JSON member \"sim\":{\"fault\":\"…\"}, by [[sim {\"fault\":\"…\"}]] in the last user message,\n" +
		"or for all: POST /sim/fault {\"fault\":\"…\",\"count\":N,\"after\":N,\"share\":0.1,\"path\":\"…\"}; POST /sim/reset clears.\n")
	return b.String()
}

func duration(s string) (time.Duration, error) {
	if ms, err := strconv.ParseFloat(s, 64); err == nil {
		return time.Duration(ms * float64(time.Millisecond)), nil
	}
	return time.ParseDuration(s)
}
