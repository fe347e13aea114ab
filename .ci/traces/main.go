// Command traces writes the traces for the measurements in routing/README.md.
//
//	go run ./.ci/traces OUT                                    hot-light, hot-busy and subagents
//	go run ./.ci/traces -agents DIR -mooncake DIR OUT          also agents, odd, later, sessions, conversation and synthetic
//
// -agents names the folder traces/ of github.com/callanjfox/kv-cache-tester. -mooncake names the
// folder FAST25-release/traces of github.com/kvcache-ai/Mooncake. The same input always yields the
// same files.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// traceLine is a call of a trace in Mooncake's format.
type traceLine struct {
	Timestamp int    `json:"timestamp"` // in milliseconds
	Input     int    `json:"input_length"`
	Output    int    `json:"output_length"`
	Blocks    []int  `json:"hash_ids"`
	Session   string `json:"session_id,omitempty"`
}

func main() {
	agents := flag.String("agents", "", "the `folder` traces of kv-cache-tester")
	mooncake := flag.String("mooncake", "", "the `folder` FAST25-release/traces of Mooncake")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := writeTraces(*agents, *mooncake, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func writeTraces(agents, mooncake, out string) error {
	err := errors.Join(
		os.MkdirAll(out, 0o750),
		saveSortedTrace(out, "hot-light", hotPrefixTrace(400)),
		saveSortedTrace(out, "hot-busy", hotPrefixTrace(40)),
		saveSortedTrace(out, "subagents", subAgentTrace()),
	)
	if agents != "" {
		err = errors.Join(err, writeAgentTraces(agents, out))
	}
	if mooncake != "" {
		err = errors.Join(err,
			copyTraceStart(mooncake, "conversation", 2_400_000, out),
			copyTraceStart(mooncake, "synthetic", 700_000, out))
	}
	return err
}

// saveSortedTrace writes lines to the file OUT/NAME.jsonl, sorted by time.
func saveSortedTrace(out, name string, lines []traceLine) error {
	slices.SortStableFunc(lines, func(a, b traceLine) int { return a.Timestamp - b.Timestamp })
	tokens := 0
	for _, l := range lines {
		tokens += l.Input
	}
	fmt.Printf("%s: %d calls of %d tokens on average\n", name, len(lines), tokens/max(len(lines), 1))
	return writeJSONLines(out, name, lines)
}

func writeJSONLines[T any](out, name string, lines []T) error {
	f, err := os.Create(filepath.Join(out, name+".jsonl"))
	if err != nil {
		return err
	}
	to := json.NewEncoder(f)
	for _, l := range lines {
		err = errors.Join(err, to.Encode(l))
	}
	return errors.Join(err, f.Close())
}

// copyTraceStart copies the calls in the first ms milliseconds of the Mooncake trace with the given
// name.
func copyTraceStart(mooncake, name string, ms int, out string) error {
	f, err := os.Open(filepath.Join(mooncake, name+"_trace.jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	var lines []traceLine
	for from := json.NewDecoder(f); from.More(); {
		var l traceLine
		if err := from.Decode(&l); err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
		if l.Timestamp < ms {
			lines = append(lines, l)
		}
	}
	return saveSortedTrace(out, name, lines)
}
