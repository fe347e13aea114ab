package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/bench/sim/fault"
)

// Event is an action that an engine performs at a set time.
type Event struct {
	At time.Duration // time since Start
	Do Action
}

// Action is an action on an engine, such as a stall. ParseAction creates it.
type Action struct {
	name  string
	value string
	apply func(*Engine)
}

// String returns the action in the format that ParseAction reads.
func (a Action) String() string {
	if a.value == "" {
		return a.name
	}
	return a.name + "=" + a.value
}

// actionDef describes an action and how its value is parsed.
type actionDef struct {
	name, usage, text string
	parse             func(value string) (func(*Engine), error)
}

// actionDefinitions returns all actions. It is a function rather than a variable, because the
// actions refer to pages that look up actions. A variable would cause an initialization cycle.
func actionDefinitions() []actionDef {
	return []actionDef{
		{
			"stall", "=DURATION", "no token and no answer for so long; probes are answered",
			func(v string) (func(*Engine), error) {
				d, err := time.ParseDuration(v)
				if err == nil && d <= 0 {
					err = errors.New("must be above 0")
				}
				return func(e *Engine) { e.slowdown.stall(d) }, err
			},
		},
		{"slow", "=FACTOR", "everything takes FACTOR times as long; 1: as usual", func(v string) (func(*Engine), error) {
			f, err := strconv.ParseFloat(v, 64)
			if err == nil && !(f > 0 && f <= 1e6) {
				err = errors.New("must be above 0 and at most 1e6")
			}
			return func(e *Engine) { e.slowdown.slowFactor.Store(math.Float64bits(f)) }, err
		}},
		{"slots", "=N", "so many requests run at once from now on; running ones stay", func(v string) (func(*Engine), error) {
			n, err := strconv.Atoi(v)
			if err == nil && n < 0 {
				err = errors.New("must be 0 or more")
			}
			return func(e *Engine) { e.SetSlots(n) }, err
		}},
		{
			"fault", "=SPEC", "a fault for every inference request, as --faults lists them; without a value: none any more",
			func(v string) (func(*Engine), error) {
				if v == "" {
					return func(e *Engine) { e.SetFault() }, nil
				}
				_, err := fault.Parse(v)
				return func(e *Engine) { e.SetFault(Fault{Spec: v}) }, err
			},
		},
		{"drop", "=SHARE", "closes that part of the connections, 0 to 1", func(v string) (func(*Engine), error) {
			f, err := strconv.ParseFloat(v, 64)
			if err == nil && !(f >= 0 && f <= 1) {
				err = errors.New("must be 0 to 1")
			}
			return func(e *Engine) { e.DropConns(f, false) }, err
		}},
		{
			"crash", "", "connections are reset and new ones refused, as when the process dies",
			func(v string) (func(*Engine), error) {
				return func(e *Engine) { e.Unlisten(); e.DropConns(1, true); e.cache.Clear() }, refuseActionValue(v)
			},
		},
		{
			"restart", "", "undoes crash on the same address, with an empty prefix cache",
			func(v string) (func(*Engine), error) {
				// Has no effect if the address is in use.
				return func(e *Engine) { _ = e.Relisten() }, refuseActionValue(v)
			},
		},
		{"sick", "", "health answers 503", func(v string) (func(*Engine), error) {
			return func(e *Engine) { e.SetHealthy(false) }, refuseActionValue(v)
		}},
		{"well", "", "undoes sick", func(v string) (func(*Engine), error) {
			return func(e *Engine) { e.SetHealthy(true) }, refuseActionValue(v)
		}},
	}
}

func refuseActionValue(v string) error {
	if v != "" {
		return errors.New("takes no value")
	}
	return nil
}

// ParseAction parses NAME[=VALUE], such as "stall=1s".
func ParseAction(s string) (Action, error) {
	name, value, _ := strings.Cut(s, "=")
	var names []string
	for _, row := range actionDefinitions() {
		if names = append(names, row.name); row.name == name {
			apply, err := row.parse(value)
			if err != nil {
				return Action{}, fmt.Errorf("%s%s: %q: %w", name, row.usage, value, err)
			}
			return Action{name, value, apply}, nil
		}
	}
	return Action{}, fmt.Errorf("unknown event %q: want one of %s", name, strings.Join(names, ", "))
}

// ParseEvent parses TIME:ACTION, such as "30s:stall=1s".
func ParseEvent(s string) (Event, error) {
	at, what, ok := strings.Cut(s, ":")
	d, err := time.ParseDuration(at)
	if !ok || err != nil || d < 0 {
		return Event{}, fmt.Errorf("event %q: want TIME:ACTION, such as 30s:stall=1s", s)
	}
	a, err := ParseAction(what)
	if err != nil {
		return Event{}, fmt.Errorf("event %q: %w", s, err)
	}
	return Event{d, a}, nil
}

// PerformAction performs the action immediately.
func (e *Engine) PerformAction(a Action) { a.apply(e) }

// runEvents performs the engine's events, until the last one or until Close.
func (e *Engine) runEvents() {
	list := slices.SortedStableFunc(slices.Values(e.o.Events), func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	begin := time.Now()
	for _, ev := range list {
		t := time.NewTimer(time.Until(begin.Add(ev.At)))
		select {
		case <-t.C:
			e.PerformAction(ev.Do)
		case <-e.server.stop:
			t.Stop()
			return
		}
	}
}

// Drill is a named list of events that rehearses a failure. In Events, QUARTER is replaced by a
// quarter of the number of slots, and ALL by the number of slots.
type Drill struct{ Name, Text, Events string }

// Drills returns the drills for `penstock sim --drill`.
func Drills() []Drill {
	return []Drill{
		{
			"overload", "at 10 s three quarters of the slots are gone, at 40 s they are back",
			"10s:slots=QUARTER 40s:slots=ALL",
		},
		{"brownout", "from 10 s to 40 s everything takes ten times as long, as on a throttled GPU", "10s:slow=10 40s:slow=1"},
		{
			"stall", "at 10 s and at 20 s the engine stands still for a second, at 30 s for five",
			"10s:stall=1s 20s:stall=1s 30s:stall=5s",
		},
		{"crash", "at 10 s the process dies, at 20 s it is back with an empty cache", "10s:crash 20s:restart"},
		{
			"flaky", "from 10 s to 40 s every connection is cut after 20 events, then it is well",
			"10s:fault=cut-after=20 40s:fault",
		},
		{
			"out-of-memory",
			"from 10 s to 25 s streams get 200 and then an error event, at 25 s the process dies, at 30 s it is back", "10s:fault=error-in-stream=5 25s:fault 25s:crash 30s:restart",
		},
	}
}

// DrillEvents returns the events of a drill for an engine that has the given number of slots.
func DrillEvents(name string, slots int) ([]Event, error) {
	var names []string
	sizes := strings.NewReplacer("QUARTER", strconv.Itoa(max(1, slots/4)), "ALL", strconv.Itoa(slots))
	for _, d := range Drills() {
		if names = append(names, d.Name); d.Name != name {
			continue
		}
		var out []Event
		for one := range strings.FieldsSeq(sizes.Replace(d.Events)) {
			ev, err := ParseEvent(one)
			if err != nil {
				panic("BUG: drill " + name + ": " + err.Error())
			}
			out = append(out, ev)
		}
		return out, nil
	}
	return nil, fmt.Errorf("unknown drill %q: want one of %s", name, strings.Join(names, ", "))
}

// actionsHelpText returns the tables of events and drills for display.
func actionsHelpText() string {
	var b strings.Builder
	b.WriteString("Events, as --at TIME:ACTION (or now: POST /sim/event {\"do\":\"stall=1s\"}):\n\n")
	for _, row := range actionDefinitions() {
		fmt.Fprintf(&b, "  %-16s %s\n", row.name+row.usage, row.text)
	}
	b.WriteString("\nDrills, as --drill NAME:\n\n")
	for _, d := range Drills() {
		fmt.Fprintf(&b, "  %-16s %s\n", d.Name, d.Text)
	}
	return b.String()
}
