package kubernetes

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// maxPorts is the maximum number of ports of a pool, as in its schema.
const maxPorts = 8

// wanted selects the pods of an upstream, and their ports.
type wanted struct {
	selector string
	ports    []int
}

// pool holds what the edge reads from an InferencePool's object.
type pool struct {
	Metadata struct{ Name, DeletionTimestamp string }
	Spec     struct {
		Selector    struct{ MatchLabels map[string]string }
		TargetPorts []struct{ Number int }
	}
}

// wanted returns the selector and the ports of the pool's pods.
func (p *pool) wanted() (*wanted, error) {
	var out wanted
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
