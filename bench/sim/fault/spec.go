package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

// Parse parses a Fault.Spec.
func Parse(spec string) (*Effects, error) {
	all := new(Effects)
	for one := range strings.SplitSeq(spec, "+") {
		head, params, _ := strings.Cut(one, ";")
		name, value, has := strings.Cut(head, "=")
		rows := faultTable()
		at := slices.IndexFunc(rows, func(r faultDef) bool { return r.name == strings.TrimSpace(name) })
		if at < 0 {
			return nil, fmt.Errorf("unknown fault %q; `penstock sim --faults` lists them", name)
		}
		given := map[string]string{}
		for one := range strings.FieldsFuncSeq(params, func(r rune) bool { return r == ';' }) {
			k, v, ok := strings.Cut(one, "=")
			if !ok {
				v = "1"
			}
			given[strings.TrimSpace(k)] = v
		}
		if has {
			given["value"] = value
		}
		if err := all.applyFaultDef(&rows[at], given); err != nil {
			return nil, fmt.Errorf("fault %q: %w", one, err)
		}
	}
	return all, nil
}

func (e *Effects) applyFaultDef(r *faultDef, given map[string]string) error {
	values, err := r.paramValues(given)
	if err != nil {
		return err
	}
	members := map[string]json.RawMessage{}
	for _, line := range r.effects {
		if line.applies(values) {
			if err := json.Unmarshal(substituteParams(line.members, values), &members); err != nil {
				panic("BUG: fault " + r.name + ": " + err.Error())
			}
		}
	}
	if err := e.setMembers(members); err != nil {
		panic("BUG: fault " + r.name + ": " + err.Error())
	}
	for _, s := range e.ReplacementSteps {
		if s.Status != 0 && (s.Status < 200 || s.Status > 999) {
			return errors.New("status is 200 to 999")
		}
	}
	if d, err := strconv.Atoi(values["delay"]); err == nil && d > 0 {
		e.Delay = time.Duration(d)
	}
	return nil
}

// paramValues returns the values of a fault's parameters, and of the other names that the fault's
// effects may refer to.
func (r *faultDef) paramValues(given map[string]string) (map[string]string, error) {
	values := map[string]string{
		"host": profile.LeakedHost, "secret": profile.LeakedSecret, "forged": string(ForgedReply()),
	}
	for _, p := range r.params {
		said, has := given[p.name]
		if delete(given, p.name); !has {
			said = p.def
		}
		if p.needed && said == "" {
			return nil, errors.New("want " + r.name + r.usage)
		}
		value, err := p.read(said)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", p.name, said, err)
		}
		values[p.name] = value
	}
	for name := range given {
		if name == "value" {
			return nil, errors.New("takes no value")
		}
		return nil, fmt.Errorf("unknown parameter %q", name)
	}
	return values, nil
}

// setMembers sets the given members. Incidents and header lines are appended to those already
// present.
func (e *Effects) setMembers(members map[string]json.RawMessage) error {
	text, err := json.Marshal(members)
	if err != nil {
		return err
	}
	before := *e
	e.Lines, e.ReplacementSteps, e.Plain, e.Incidents = "", nil, nil, nil
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(e)
	e.Lines = before.Lines + e.Lines
	if e.ReplacementSteps == nil {
		e.ReplacementSteps = before.ReplacementSteps
	}
	if e.Plain == nil {
		e.Plain = before.Plain
	}
	e.Incidents = append(before.Incidents, e.Incidents...)
	return err
}

var placeholder = regexp.MustCompile(`\$[a-z0-9-]+`)

// substituteParams replaces each $name with the value of the parameter of that name, and durations
// such as $5ms with the number of nanoseconds.
func substituteParams(members string, values map[string]string) []byte {
	return placeholder.ReplaceAllFunc([]byte(members), func(name []byte) []byte {
		if v, known := values[string(name[1:])]; known {
			return wire.AppendEscaped(nil, v)
		}
		d, err := time.ParseDuration(string(name[1:]))
		if err != nil {
			panic("BUG: faults.txtar: " + err.Error())
		}
		return strconv.AppendInt(nil, int64(d), 10)
	})
}

// paramParser converts the value of a parameter to JSON.
type paramParser func(said string) (string, error)

func parseFlag(said string) (string, error) {
	switch said {
	case "", "0", "false":
		return "false", nil
	case "1", "true":
		return "true", nil
	}
	return "", errors.New("want 1 or 0")
}

func parseNumber(said string) (string, error) {
	if n, err := strconv.Atoi(said); err != nil || n < 0 || n > math.MaxInt32 {
		return "", errors.New("want a number from 0")
	}
	return said, nil
}

func parseDuration(said string) (string, error) {
	d, err := ParseDuration(said)
	if err != nil || d < 0 {
		return "", errors.New("want a duration")
	}
	return strconv.FormatInt(int64(d), 10), nil
}

func enumParser(words []string) paramParser {
	return func(said string) (string, error) {
		if !slices.Contains(words, said) {
			return "", errors.New("want one of " + strings.Join(words, ", "))
		}
		return said, nil
	}
}

func parseText(said string) (string, error) { return said, nil }

// ParseDuration parses a duration ("250ms") or a number of milliseconds.
func ParseDuration(s string) (time.Duration, error) {
	if ms, err := strconv.ParseFloat(s, 64); err == nil {
		return time.Duration(ms * float64(time.Millisecond)), nil
	}
	return time.ParseDuration(s)
}
