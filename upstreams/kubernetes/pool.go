package kubernetes

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// maxPorts is the maximum number of ports in the schema of an InferencePool.
const maxPorts = 8

// podSelection contains the selector and the ports of an upstream's pods.
type podSelection struct {
	selector string
	ports    []int
}

// inferencePool is the part of an InferencePool object that the edge reads.
type inferencePool struct {
	Metadata struct{ Name, DeletionTimestamp string }
	Spec     struct {
		Selector    struct{ MatchLabels map[string]string }
		TargetPorts []struct{ Number int }
	}
}

func (p *inferencePool) selection() (*podSelection, error) {
	var out podSelection
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Selector.MatchLabels)) {
		out.selector += "," + name + "=" + p.Spec.Selector.MatchLabels[name]
	}
	out.selector = strings.TrimPrefix(out.selector, ",")
	for _, port := range p.Spec.TargetPorts {
		if port.Number >= 1 && port.Number <= 65535 && !slices.Contains(out.ports, port.Number) {
			out.ports = append(out.ports, port.Number)
		}
	}
	if out.selector == "" || len(out.ports) == 0 || len(out.ports) > maxPorts {
		return nil, errors.New("the InferencePool has no selector or no ports")
	}
	return &out, nil
}
