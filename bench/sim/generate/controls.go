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

// Controls are the settings that a request can make for itself: by X-Sim-… headers, by a member
// "sim" of its JSON body, or by [[sim {…}]] with the same members in the text of its last user
// message (for dialects whose translation drops unknown members).
type Controls struct {
	Fault     string  `json:"fault"`
	Tokens    int     `json:"tokens"`     // exact number of text tokens; -1: not set
	Reasoning int     `json:"reasoning"`  // exact number of reasoning tokens; -1: not set
	ToolCalls int     `json:"tool_calls"` // number of tool calls, if the answer makes any
	TTFT      Millis  `json:"ttft_ms"`    // from the slot to the first token; -1: not set
	Gap       Millis  `json:"delay_ms"`   // between tokens, replacing the token rate; -1: not set
	Text      *string `json:"text"`       // the text to say
	Echo      bool    `json:"echo"`       // repeat the last user message
	Speak     bool    `json:"speak"`      // no tool call even if tools are offered
	Secret    bool    `json:"secret"`     // think of a number, then tell the one in the history's reasoning
	Finish    string  `json:"finish"`
	Err       error   `json:"-"` // an error in a header

	arm   func(*fault.Effects) // makes the answer misbehave
	armed bool                 // by a header; the body cannot change it
}

// Millis is a duration given in milliseconds in JSON.
type Millis time.Duration

// UnmarshalJSON reads milliseconds; negative ones become 0.
func (m *Millis) UnmarshalJSON(b []byte) error {
	ms, err := strconv.ParseFloat(string(b), 64)
	*m = Millis(max(0, ms*float64(time.Millisecond)))
	return err
}

// NewControls returns controls with nothing set. arm makes the answer misbehave.
func NewControls(arm func(*fault.Effects)) Controls {
	return Controls{Tokens: -1, Reasoning: -1, TTFT: -1, Gap: -1, arm: arm}
}

// Header reads one X-Sim- header. X-Sim-Delay and X-Sim-TTFT are durations ("250ms") or
// milliseconds.
func (k *Controls) Header(name, value string) {
	var err error
	duration := func(to *Millis) {
		var d time.Duration
		d, err = fault.Duration(value)
		*to = Millis(d)
	}
	switch strings.ToLower(name[6:]) {
	case "fault":
		err = k.armSpec(value)
		k.armed = err == nil
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

// body reads the "sim" member of a body, or the JSON marked in a text.
func (k *Controls) body(text []byte) error {
	k.Fault = ""
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(k); err != nil {
		return fmt.Errorf("no such control, or none of its type: %w", err)
	}
	k.ToolCalls = min(k.ToolCalls, 64)
	if k.Fault == "" || k.armed {
		return nil
	}
	return k.armSpec(k.Fault)
}

// marked returns the JSON between "[[sim " and "]]" in a text, or "".
func marked(text string) string {
	_, rest, _ := strings.Cut(text, "[[sim ")
	s, _, ok := strings.Cut(rest, "]]")
	if !ok {
		return ""
	}
	return s
}

// armSpec arms a fault that the request itself requested.
func (k *Controls) armSpec(spec string) error {
	f, err := fault.Parse(spec)
	if err == nil {
		k.arm(f)
	}
	return err
}
