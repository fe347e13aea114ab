package config

import (
	"bytes"
	"fmt"
	"strconv"
)

// LocalEngine is an engine found on this machine.
type LocalEngine struct {
	URL    string
	Engine string // profile name
	Models []LocalModel
}

// LocalModel is a model of an engine found on this machine.
type LocalModel struct {
	ID   string // the name it is served under
	Kind string // of the catalog's; empty: chat
}

// Local writes the configuration that serves the given engines to the holder of one key: what the
// start without a configuration uses, as a file that can be kept and edited. A model that several
// engines serve gets them all; one whose name cannot be an id is left out.
func Local(engines []LocalEngine, keyHash string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b,
		"listen: 127.0.0.1:4000\nadmin: { listen: 127.0.0.1:9090 }\nlog: { format: console }\ntimeouts: { linger: 0s }\nkeys:\n  - { id: local, hash: %q }\nupstreams:\n", keyHash)
	upstreams := map[LocalModel][]string{}
	first := map[string]LocalModel{} // of engines that differ about a model's kind the first one has it
	var order []LocalModel
	for i, e := range engines {
		name := e.Engine + "-" + strconv.Itoa(i+1)
		fmt.Fprintf(&b, "  - { name: %q, url: %q, engine: %q }\n", name, e.URL, e.Engine)
		for _, m := range e.Models {
			if m.ID == "" || len(m.ID) > 256 || !presentable(m.ID) {
				continue
			}
			if before, known := first[m.ID]; known && before != m {
				continue
			}
			first[m.ID] = m
			if upstreams[m] == nil {
				order = append(order, m)
			}
			upstreams[m] = append(upstreams[m], name)
		}
	}
	b.WriteString("models:\n")
	for _, m := range order {
		fmt.Fprintf(&b, "  - id: %q\n", m.ID)
		if m.Kind != "" {
			fmt.Fprintf(&b, "    kind: %s\n", m.Kind)
		}
		b.WriteString("    deployments:\n")
		for _, name := range upstreams[m] {
			fmt.Fprintf(&b, "      - { upstream: %q }\n", name)
		}
	}
	return b.Bytes()
}
