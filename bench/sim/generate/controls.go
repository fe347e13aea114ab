package generate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/fault"
)

// Controls are what a request itself may ask of the simulator: by X-Sim-… headers, by a member
// "sim" of its JSON body, or by [[sim {…}]] with the same members in the text of its last user
// message (for dialects whose translation drops unknown members).
type Controls struct {
	tokens    int           // exactly so many tokens of text; -1: not said
	reasoning int           // exactly so many of reasoning; -1: not said
	toolCalls int           // how many calls, when one is made
	TTFT      time.Duration // from the slot to the first token, in place of latency and prefill; -1: not said
	Gap       time.Duration // between tokens, in place of the token rate; -1: not said
	text      string        // say this
	hasText   bool
	echo      bool // say what the last user message says
	speaks    bool // no tool call although tools are offered
	secret    bool // think of a number, use a tool, tell the number that the history's reasoning has
	finish    string
	Err       error // what was wrong with a header

	arm   func(*fault.Effects) // makes the answer misbehave
	armed bool                 // by a header: the body cannot change it
}

// NewControls are none; arm makes the answer misbehave.
func NewControls(arm func(*fault.Effects)) Controls {
	return Controls{tokens: -1, reasoning: -1, TTFT: -1, Gap: -1, arm: arm}
}

// Header reads one X-Sim- header. X-Sim-Delay and X-Sim-TTFT are durations ("250ms") or
// milliseconds.
func (k *Controls) Header(name, value string) {
	var err error
	switch strings.ToLower(name[6:]) {
	case "fault":
		err = k.armSpec(value)
		k.armed = err == nil
	case "tokens":
		k.tokens, err = strconv.Atoi(value)
	case "reasoning":
		k.reasoning, err = strconv.Atoi(value)
	case "ttft":
		k.TTFT, err = fault.Duration(value)
	case "delay":
		k.Gap, err = fault.Duration(value)
	case "echo":
		k.echo = value == "true" || value == "1"
	default:
		err = errors.New("no such control")
	}
	if err != nil {
		k.Err = fmt.Errorf("header %s: %w", name, err)
	}
}

// value reads the "sim" member.
func (k *Controls) value(v *fastjson.Value) error {
	o, err := v.Object()
	if err != nil {
		return err
	}
	o.Visit(func(key []byte, v *fastjson.Value) {
		var e error
		switch name := string(key); name {
		case "fault":
			if !k.armed {
				e = k.armSpec(string(v.GetStringBytes()))
			}
		case "tokens":
			k.tokens, e = v.Int()
		case "reasoning":
			k.reasoning, e = v.Int()
		case "tool_calls":
			k.toolCalls, e = v.Int()
			k.toolCalls = min(k.toolCalls, 64)
		case "ttft_ms":
			k.TTFT, e = millis(v)
		case "delay_ms":
			k.Gap, e = millis(v)
		case "text":
			k.text, k.hasText = string(v.GetStringBytes()), true
		case "echo":
			k.echo, e = v.Bool()
		case "secret":
			k.secret, e = v.Bool()
		case "speak":
			k.speaks, e = v.Bool()
		case "finish":
			k.finish = string(v.GetStringBytes())
		default:
			e = errors.New("no such control")
		}
		if e != nil {
			err = fmt.Errorf("%s: %w", key, e)
		}
	})
	return err
}

// body reads controls found in a text.
func (k *Controls) body(s string) error {
	v, err := fastjson.Parse(s)
	if err != nil {
		return err
	}
	return k.value(v)
}

// marked is the JSON between "[[sim " and "]]" in a text, or empty.
func marked(text string) string {
	_, rest, ok := strings.Cut(text, "[[sim ")
	if !ok {
		return ""
	}
	s, _, ok := strings.Cut(rest, "]]")
	if !ok {
		return ""
	}
	return s
}

// armSpec arms a fault that the request itself asked for.
func (k *Controls) armSpec(spec string) error {
	f, err := fault.Parse(spec)
	if err == nil {
		k.arm(f)
	}
	return err
}

func millis(v *fastjson.Value) (time.Duration, error) {
	ms, err := v.Float64()
	return max(0, time.Duration(ms*float64(time.Millisecond))), err
}
