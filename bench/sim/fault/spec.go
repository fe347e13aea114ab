package fault

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Parse reads a spec.
func Parse(spec string) (*Effects, error) {
	all := new(Effects)
	for one := range strings.SplitSeq(spec, "+") {
		head, rest, _ := strings.Cut(one, ";")
		name, value, has := strings.Cut(head, "=")
		at := slices.IndexFunc(table, func(r row) bool { return r.name == strings.TrimSpace(name) })
		if at < 0 {
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
		table[at].effect(all, &a)
		if d := a.duration("delay", 0); d > 0 {
			all.Delay = d
		}
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
	}
	all.Lines, all.Surplus = slices.Clip(all.Lines), slices.Clip(all.Surplus)
	return all, nil
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
	d, err := Duration(a.value)
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
	switch a.str(name, "") {
	case "", "0", "false":
		return false
	case "1", "true":
		return true
	}
	a.fail("%s is 1 or 0", name)
	return false
}

func (a *args) duration(name string, def time.Duration) time.Duration {
	s := a.str(name, "")
	if s == "" {
		return def
	}
	d, err := Duration(s)
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

// kind is the text that parameter kind names.
func (a *args) kind(def string, texts map[string]string) string {
	return texts[a.oneOf("kind", def, sortedKeys(texts)...)]
}

// Duration reads a duration ("250ms") or milliseconds.
func Duration(s string) (time.Duration, error) {
	if ms, err := strconv.ParseFloat(s, 64); err == nil {
		return time.Duration(ms * float64(time.Millisecond)), nil
	}
	return time.ParseDuration(s)
}
