package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"penstock/bench/exit"
)

// dataset is a file of prompts or lengths.
type dataset struct{ entries []datasetEntry }

// datasetEntry is one element of a dataset.
type datasetEntry struct {
	human     [][]byte // the user's text in each turn; nil for a trace
	TraceCall          // set for a trace; for other data sets, only Out is set (0 if unknown)
}

// readDataset reads a file. Its errors name the faulty line.
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

// parseDataset parses a data set with one JSON value per line. A sharegpt data set may also be a
// JSON list.
func parseDataset(kind string, text []byte) (*dataset, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	dec := json.NewDecoder(bytes.NewReader(text))
	line := func(at int64) int { return 1 + bytes.Count(text[:min(at, int64(len(text)))], []byte("\n")) }
	list := len(bytes.TrimSpace(text)) > 0 && bytes.TrimSpace(text)[0] == '['
	if list {
		if kind == "trace" {
			return nil, errors.New("line 1: a trace has one object on each line, not a list")
		}
		_, _ = dec.Token() // the opening bracket
	}
	var trace traceReader
	parse := map[string]func(json.RawMessage) (datasetEntry, bool, error){
		"sharegpt": parseShareGPT, "custom": parseCustom, "trace": trace.readLine,
	}[kind]
	d := &dataset{}
	for !list || dec.More() {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if err == io.EOF && !list { //nolint:errorlint // Decode returns io.EOF unwrapped
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
	trace.assignStartTimes(d.entries)
	first := d.entries[0].At
	for i := range d.entries {
		d.entries[i].At -= first
	}
	return d, nil
}

// parseShareGPT parses {"conversations":[{"from":"human","value":…},{"from":"gpt","value":…}]}.
// Like other tools, it skips conversations that do not start with a human or have no reply.
func parseShareGPT(raw json.RawMessage) (e datasetEntry, use bool, err error) {
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
			if len(e.human) == 1 && e.Out == 0 {
				e.Out = max(1, len(turn.Value)/4)
			}
			use = len(e.human) > 0
		}
	}
	return e, use, nil
}

// parseCustom parses {"prompt":…,"output_len":…}. output_len is optional.
func parseCustom(raw json.RawMessage) (e datasetEntry, use bool, err error) {
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
	return datasetEntry{human: [][]byte{[]byte(*in.Prompt)}, TraceCall: TraceCall{Out: in.OutputLen}}, true, nil
}
