package kubernetes

import (
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Labels and annotations that the edge reads.
const (
	labelRole             = "llm-d.ai/role"
	labelEngine           = "llm-d.ai/engine-type"
	annotationPorts       = "llm-d.ai/active-ports"
	oldAnnotationPorts    = "inference.networking.k8s.io/active-ports"
	annotationWeight      = "penstock/weight"
	annotationConcurrency = "penstock/concurrency"
)

// nonDecodeRoles lists pod roles that cannot serve a call alone.
var nonDecodeRoles = []string{"prefill", "encode", "encode-prefill"}

// PodEndpoint is one port of one pod.
type PodEndpoint struct {
	Key         string // unique, even among pods with the same name or address
	Pod         string // the pod's name; includes the port if the pod has more than one
	Address     string // includes the port
	Ready       bool
	Engine      string  // engine type in the pod's label, or empty
	Weight      float64 // 0 if not set
	Concurrency int     // 0 if not set
}

// pod is the part of a pod object that the edge reads.
type pod struct {
	Metadata podMetadata
	Status   struct {
		Phase, PodIP string
		Conditions   []struct{ Type, Status string }
	}
}

type podMetadata struct {
	Name, UID           string
	DeletionTimestamp   string
	Labels, Annotations map[string]string
}

// podState is the state that the watcher stores for a pod.
type podState struct {
	endpoints []PodEndpoint
	problem   string // problem with the pod's annotations
}

func readPod(object json.RawMessage) (*pod, error) {
	p := new(pod)
	if json.Unmarshal(object, p) != nil || p.Metadata.UID == "" {
		return nil, errNotAPI
	}
	return p, nil
}

func (p *pod) endpoints(ports []int) podState {
	m, s := &p.Metadata, &p.Status
	ip, err := netip.ParseAddr(s.PodIP)
	if err != nil || ip.IsUnspecified() || ip.IsMulticast() || m.DeletionTimestamp != "" ||
		s.Phase == "Succeeded" || s.Phase == "Failed" || slices.Contains(nonDecodeRoles, m.Labels[labelRole]) {
		return podState{}
	}
	var k podState
	e := PodEndpoint{Engine: m.Labels[labelEngine], Ready: p.isReady()}
	if text, given := m.Annotations[annotationWeight]; given {
		weight, err := strconv.ParseFloat(text, 64)
		if err == nil && weight > 0 && weight <= 1000 {
			e.Weight = weight
		} else {
			k.problem = annotationWeight + " is not a number above 0, up to 1000"
		}
	}
	if text, given := m.Annotations[annotationConcurrency]; given {
		n, err := strconv.Atoi(text)
		if err == nil && n >= 1 && n <= 1e6 {
			e.Concurrency = n
		} else {
			k.problem = annotationConcurrency + " is not a whole number above 0, up to 1000000"
		}
	}
	active, all := m.activePorts()
	for _, port := range ports {
		if !all && !slices.Contains(active, port) {
			continue
		}
		e.Key, e.Pod = m.UID+":"+strconv.Itoa(port), m.Name
		if len(ports) > 1 {
			e.Pod += ":" + strconv.Itoa(port)
		}
		e.Address = net.JoinHostPort(ip.String(), strconv.Itoa(port))
		k.endpoints = append(k.endpoints, e)
	}
	return k
}

func (p *pod) isReady() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// activePorts returns the ports in the annotation. all is true if the pod has no such annotation.
func (m *podMetadata) activePorts() (ports []int, all bool) {
	text, given := m.Annotations[annotationPorts]
	if !given {
		text, given = m.Annotations[oldAnnotationPorts]
	}
	for word := range strings.SplitSeq(text, ",") {
		if port, err := strconv.Atoi(strings.TrimSpace(word)); err == nil {
			ports = append(ports, port)
		}
	}
	return ports, !given
}
