package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/fault"
)

// controls are what a request itself may ask of the simulator: by X-Sim-… headers, by a member
// "sim" of its JSON body, or by [[sim {…}]] with the same members in the text of its last user
// message (for dialects whose translation drops unknown members).
type controls struct {
	tokens    int           // exactly so many tokens of text; -1: not said
	reasoning int           // exactly so many of reasoning; -1: not said
	toolCalls int           // how many calls, when one is made
	ttft      time.Duration // from the slot to the first token, in place of latency and prefill; -1: not said
	gap       time.Duration // between tokens, in place of the token rate; -1: not said
	text      string        // say this
	hasText   bool
	echo      bool // say what the last user message says
	speaks    bool // no tool call although tools are offered
	secret    bool // think of a number, use a tool, tell the number that the history's reasoning has
	finish    string
	err       error // what was wrong with a header
}

var noControls = controls{tokens: -1, reasoning: -1, ttft: -1, gap: -1}

// header reads one X-Sim- header. X-Sim-Delay and X-Sim-TTFT are durations ("250ms") or
// milliseconds.
func (k *controls) header(x *exchange, h Header) {
	var err error
	switch strings.ToLower(h.Name[6:]) {
	case "fault":
		err = armSpec(x, h.Value)
		x.armed = err == nil
	case "tokens":
		k.tokens, err = strconv.Atoi(h.Value)
	case "reasoning":
		k.reasoning, err = strconv.Atoi(h.Value)
	case "ttft":
		k.ttft, err = fault.Duration(h.Value)
	case "delay":
		k.gap, err = fault.Duration(h.Value)
	case "echo":
		k.echo = h.Value == "true" || h.Value == "1"
	default:
		err = errors.New("no such control")
	}
	if err != nil {
		k.err = fmt.Errorf("header %s: %w", h.Name, err)
	}
}

// value reads the "sim" member.
func (k *controls) value(x *exchange, v *fastjson.Value) error {
	o, err := v.Object()
	if err != nil {
		return err
	}
	o.Visit(func(key []byte, v *fastjson.Value) {
		var e error
		switch name := string(key); name {
		case "fault":
			if !x.armed {
				e = armSpec(x, string(v.GetStringBytes()))
			}
		case "tokens":
			k.tokens, e = v.Int()
		case "reasoning":
			k.reasoning, e = v.Int()
		case "tool_calls":
			k.toolCalls, e = v.Int()
			k.toolCalls = min(k.toolCalls, 64)
		case "ttft_ms":
			k.ttft, e = millis(v)
		case "delay_ms":
			k.gap, e = millis(v)
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
func (k *controls) body(x *exchange, s string) error {
	v, err := fastjson.Parse(s)
	if err != nil {
		return err
	}
	return k.value(x, v)
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
func armSpec(x *exchange, spec string) error {
	f, err := fault.Parse(spec)
	if err == nil {
		arm(x, f)
	}
	return err
}

func millis(v *fastjson.Value) (time.Duration, error) {
	ms, err := v.Float64()
	return max(0, time.Duration(ms*float64(time.Millisecond))), err
}
