package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"penstock/bench/exit"
)

// TraceBlock is how many tokens a hash id of a trace stands for.
const TraceBlock = 512

// dataset is a file of prompts or lengths.
type dataset struct{ entries []entry }

// entry is one line of it.
type entry struct {
	human  [][]byte // what the user says, turn by turn; of a trace nil
	out    int      // tokens; 0: not said
	in     int
	at     time.Duration // since the first line
	hashes []int64
}

// Call is a request of a trace.
type Call struct {
	At      time.Duration // since the first one
	In, Out int           // tokens
	Blocks  []int64       // of the prompt, TraceBlock tokens each; empty: it shares nothing
}

// ReadTrace reads a trace. Errors are usage errors.
func ReadTrace(path string) ([]Call, error) {
	d, err := readDataset("trace", path)
	if err != nil {
		return nil, err
	}
	out := make([]Call, len(d.entries))
	for i, e := range d.entries {
		out[i] = Call{At: e.at, In: e.in, Out: e.out, Blocks: e.hashes}
	}
	return out, nil
}

// readDataset reads a file. Mistakes are reported with their line.
func readDataset(kind, path string) (*dataset, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, exit.Usagef("%v", err)
	}
	d, err := parseDataset(kind, text)
	if err != nil {
		return nil, exit.Usagef("%s: %v", path, err)
	}
	return d, nil
}

// parseDataset reads a data set: a JSON value a line, or for sharegpt also one list of them.
func parseDataset(kind string, text []byte) (*dataset, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	dec := json.NewDecoder(bytes.NewReader(text))
	line := func(at int64) int { return 1 + bytes.Count(text[:min(at, int64(len(text)))], []byte("\n")) }
	list := len(bytes.TrimSpace(text)) > 0 && bytes.TrimSpace(text)[0] == '['
	if list {
		if kind == "trace" {
			return nil, errors.New("line 1: a trace has one object on each line, not a list")
		}
		_, _ = dec.Token() // the bracket that was seen
	}
	parse := map[string]func(json.RawMessage) (entry, bool, error){
		"sharegpt": parseShareGPT, "custom": parseCustom,
		"trace": parseTrace,
	}[kind]
	d := &dataset{}
	for !list || dec.More() {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if err == io.EOF && !list { //nolint:errorlint // Decode returns it as it is
			break
		}
		if err != nil {
			at := int64(len(text))
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				at = syntax.Offset
			}
			return nil, fmt.Errorf("line %d: %w", line(at), err)
		}
		e, use, err := parse(raw)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line(dec.InputOffset()-int64(len(raw))), err)
		}
		if use {
			d.entries = append(d.entries, e)
		}
	}
	if list {
		if _, err := dec.Token(); err != nil {
			return nil, fmt.Errorf("line %d: the list does not end", line(int64(len(text))))
		}
	}
	if len(d.entries) == 0 {
		return nil, fmt.Errorf("no %s entry that can be used", kind)
	}
	first := d.entries[0].at
	for i := range d.entries {
		if d.entries[i].at -= first; i > 0 && d.entries[i].at < d.entries[i-1].at {
			return nil, fmt.Errorf("entry %d: its timestamp is before that of the entry above", i+1)
		}
	}
	return d, nil
}

// parseShareGPT reads {"conversations":[{"from":"human","value":…},{"from":"gpt","value":…}]}.
// Conversations that do not begin with a person, or have no reply, are passed over, as every tool
// does.
func parseShareGPT(raw json.RawMessage) (e entry, use bool, err error) {
	var in struct {
		Conversations []struct{ From, Value string }
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return e, false, err
	}
	for _, turn := range in.Conversations {
		switch turn.From {
		case "human", "user":
			if turn.Value != "" {
				e.human = append(e.human, []byte(turn.Value))
			}
		case "gpt", "assistant", "chatgpt":
			if len(e.human) == 1 && e.out == 0 {
				e.out = max(1, len(turn.Value)/4)
			}
			use = len(e.human) > 0
		}
	}
	return e, use, nil
}

// parseCustom reads {"prompt":…,"output_len":…}, output_len being optional.
func parseCustom(raw json.RawMessage) (e entry, use bool, err error) {
	var in struct {
		Prompt    *string
		OutputLen int `json:"output_len"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return e, false, err
	}
	if in.Prompt == nil || *in.Prompt == "" || in.OutputLen < 0 || in.OutputLen > maxTraceTokens {
		return e, false, errors.New(`want {"prompt":TEXT} and perhaps "output_len" from 0`)
	}
	return entry{human: [][]byte{[]byte(*in.Prompt)}, out: in.OutputLen}, true, nil
}

// maxTraceTime bounds the time that a replay takes.
const maxTraceTime = 366 * 24 * time.Hour

// maxTraceStamp bounds timestamps, in ms: Unix time is one, too.
const maxTraceStamp = 9e12

// maxTraceTokens bounds the lengths of a file: a prompt of that many tokens is some 50 MB.
const maxTraceTokens = 10_000_000

// parseTrace reads {"timestamp":MS,"input_length":N,"output_length":N,"hash_ids":[…]}, hash_ids
// being optional.
func parseTrace(raw json.RawMessage) (e entry, use bool, err error) {
	var in struct {
		Timestamp    *float64
		InputLength  *int    `json:"input_length"`
		OutputLength *int    `json:"output_length"`
		HashIDs      []int64 `json:"hash_ids"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return e, false, err
	}
	switch {
	case in.Timestamp == nil || in.InputLength == nil || in.OutputLength == nil:
		return e, false, errors.New("want timestamp (ms), input_length and output_length")
	case *in.Timestamp < 0 || *in.Timestamp > maxTraceStamp || *in.InputLength < 1 || *in.InputLength > maxTraceTokens ||
		*in.OutputLength < 0 || *in.OutputLength > maxTraceTokens:
		return e, false, fmt.Errorf("want a timestamp from 0 and lengths of 1 to %d tokens", maxTraceTokens)
	}
	return entry{
		in: *in.InputLength, out: *in.OutputLength,
		at: time.Duration(*in.Timestamp * float64(time.Millisecond)), hashes: in.HashIDs,
	}, true, nil
}
