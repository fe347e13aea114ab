package generate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"penstock/bench/sim/fault"
)

// Controls are the settings by which a request controls its response. A request sets them with
// X-Sim-… headers, with a member "sim" in its JSON body, or with [[sim {…}]] in the text of its
// last user message. The last form is for dialects whose translation drops unknown members.
type Controls struct {
	Fault     string  `json:"fault"`
	Tokens    int     `json:"tokens"`     // exact number of text tokens; -1 if not set
	Reasoning int     `json:"reasoning"`  // exact number of reasoning tokens; -1 if not set
	ToolCalls int     `json:"tool_calls"` // number of tool calls, if the response makes any
	TTFT      Millis  `json:"ttft_ms"`    // time from acquiring the slot to the first token; -1 if not set
	Gap       Millis  `json:"delay_ms"`   // time between tokens, instead of the token rate; -1 if not set
	Text      *string `json:"text"`       // text of the response
	Echo      bool    `json:"echo"`       // repeat the last user message
	Speak     bool    `json:"speak"`      // make no tool call even if tools are offered
	// think of a number, and later repeat the number found in the reasoning in the history
	Secret bool   `json:"secret"`
	Finish string `json:"finish"`
	Err    error  `json:"-"` // error found in a header

	setFaults         func(*fault.Effects) // sets the faults of the exchange
	faultsSetByHeader bool                 // a header has set faults, so the body cannot override them
}

// Millis is a duration, given in JSON as a number of milliseconds.
type Millis time.Duration

// UnmarshalJSON parses a number of milliseconds. Negative numbers become 0.
func (m *Millis) UnmarshalJSON(b []byte) error {
	ms, err := strconv.ParseFloat(string(b), 64)
	*m = Millis(max(0, ms*float64(time.Millisecond)))
	return err
}

// NewControls returns controls in which nothing is set. The function arm is called to set the
// faults of the exchange.
func NewControls(arm func(*fault.Effects)) Controls {
	return Controls{Tokens: -1, Reasoning: -1, TTFT: -1, Gap: -1, setFaults: arm}
}

// SetFromHeader parses an X-Sim- header. X-Sim-Delay and X-Sim-TTFT are durations ("250ms") or
// numbers of milliseconds.
func (k *Controls) SetFromHeader(name, value string) {
	var err error
	duration := func(to *Millis) {
		var d time.Duration
		d, err = fault.ParseDuration(value)
		*to = Millis(d)
	}
	switch strings.ToLower(name[6:]) {
	case "fault":
		err = k.setFaultSpec(value)
		k.faultsSetByHeader = err == nil
	case "tokens":
		k.Tokens, err = strconv.Atoi(value)
	case "reasoning":
		k.Reasoning, err = strconv.Atoi(value)
	case "ttft":
		duration(&k.TTFT)
	case "delay":
		duration(&k.Gap)
	case "echo":
		k.Echo = value == "true" || value == "1"
	default:
		err = errors.New("no such control")
	}
	if err != nil {
		k.Err = fmt.Errorf("header %s: %w", name, err)
	}
}

// parseBody parses the "sim" member of a body, or the JSON that is marked in a message.
func (k *Controls) parseBody(text []byte) error {
	k.Fault = ""
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(k); err != nil {
		return fmt.Errorf("no such control, or none of its type: %w", err)
	}
	k.ToolCalls = min(k.ToolCalls, 64)
	if k.Fault == "" || k.faultsSetByHeader {
		return nil
	}
	return k.setFaultSpec(k.Fault)
}

// markedControls returns the JSON between "[[sim " and "]]" in a text, or "".
func markedControls(text string) string {
	_, rest, _ := strings.Cut(text, "[[sim ")
	s, _, ok := strings.Cut(rest, "]]")
	if !ok {
		return ""
	}
	return s
}

// setFaultSpec sets the fault that the request demands.
func (k *Controls) setFaultSpec(spec string) error {
	f, err := fault.Parse(spec)
	if err == nil {
		k.setFaults(f)
	}
	return err
}
