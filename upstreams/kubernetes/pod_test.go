package kubernetes

import (
	"encoding/json"
	"slices"
	"testing"

	"penstock/config/testkit/kubeapi"
)

func TestPodEndpoints(t *testing.T) {
	running := kubeapi.NewPod("vllm-0", "uid-0", "10.0.0.1")
	status := func(phase, ip string) kubeapi.Object {
		p := kubeapi.NewPod("vllm-0", "uid-0", ip)
		p["status"].(kubeapi.Object)["phase"] = phase
		return p
	}
	pod := func(marks ...string) kubeapi.Object { return kubeapi.NewPod("vllm-0", "uid-0", "10.0.0.1", marks...) }
	at := func(port string) PodEndpoint {
		return PodEndpoint{Key: "uid-0:" + port, Pod: "vllm-0:" + port, Address: "10.0.0.1:" + port, Ready: true}
	}
	one := PodEndpoint{Key: "uid-0:8000", Pod: "vllm-0", Address: "10.0.0.1:8000", Ready: true}
	but := func(change func(*PodEndpoint)) []PodEndpoint {
		e := one
		change(&e)
		return []PodEndpoint{e}
	}
	for _, c := range []struct {
		name    string
		pod     kubeapi.Object
		ports   []int
		want    []PodEndpoint
		problem bool
	}{
		{"one port", running, []int{8000}, []PodEndpoint{one}, false},
		{"several ports", running, []int{8000, 8001}, []PodEndpoint{at("8000"), at("8001")}, false},
		{"not ready: still an endpoint, for probes judge", kubeapi.UnreadyPod(running), []int{8000}, but(func(e *PodEndpoint) { e.Ready = false }), false},
		{"being deleted", kubeapi.DeletingPod(running), []int{8000}, nil, false},
		{"IPv6", status("Running", "fd00::1"), []int{8000}, but(func(e *PodEndpoint) { e.Address = "[fd00::1]:8000" }), false},
		{"no address yet", status("Pending", ""), []int{8000}, nil, false},
		{"no address", status("Running", "10.0.0.1:80"), []int{8000}, nil, false},
		{"everywhere is no address", status("Running", "0.0.0.0"), []int{8000}, nil, false},
		{"ended", status("Succeeded", "10.0.0.1"), []int{8000}, nil, false},
		{"failed", status("Failed", "10.0.0.1"), []int{8000}, nil, false},
		{"prefill", pod("llm-d.ai/role=prefill"), []int{8000}, nil, false},
		{"encode", pod("llm-d.ai/role=encode"), []int{8000}, nil, false},
		{"decode", pod("llm-d.ai/role=decode"), []int{8000}, []PodEndpoint{one}, false},
		{"prefill and decode", pod("llm-d.ai/role=prefill-decode"), []int{8000}, []PodEndpoint{one}, false},
		{"engine", pod("llm-d.ai/engine-type=sglang"), []int{8000}, but(func(e *PodEndpoint) { e.Engine = "sglang" }), false},
		{"active ports", pod("llm-d.ai/active-ports=8001, 9000"), []int{8000, 8001}, []PodEndpoint{at("8001")}, false},
		{"active ports, by the older name", pod("inference.networking.k8s.io/active-ports=8000"), []int{8000, 8001}, []PodEndpoint{at("8000")}, false},
		{"no port is active", pod("llm-d.ai/active-ports="), []int{8000}, nil, false},
		{"weight", pod("penstock/weight=2.5"), []int{8000}, but(func(e *PodEndpoint) { e.Weight = 2.5 }), false},
		{"concurrency", pod("penstock/concurrency=48"), []int{8000}, but(func(e *PodEndpoint) { e.Concurrency = 48 }), false},
		{"weight 0", pod("penstock/weight=0"), []int{8000}, []PodEndpoint{one}, true},
		{"weight that is no number", pod("penstock/weight=NaN"), []int{8000}, []PodEndpoint{one}, true},
		{"an invalid concurrency", pod("penstock/concurrency=many"), []int{8000}, []PodEndpoint{one}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, err := json.Marshal(c.pod)
			if err != nil {
				t.Fatal(err)
			}
			p, err := readPod(text)
			if err != nil {
				t.Fatal(err)
			}
			got := p.endpoints(c.ports)
			if !slices.Equal(got.endpoints, c.want) || (got.problem != "") != c.problem {
				t.Errorf("endpoints = %+v, want %+v and a problem: %t", got, c.want, c.problem)
			}
		})
	}
}

// FuzzRead checks that no object that an API server may send for a pod or a pool causes a panic.
func FuzzRead(f *testing.F) {
	for _, o := range []any{kubeapi.NewPod("a", "b", "::1", "penstock/weight=1"), kubeapi.NewPool("p", "app", "vllm", 8000), []int{1}, nil} {
		text, err := json.Marshal(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := readPod(text); err == nil {
			for _, e := range p.endpoints([]int{8000, 8001}).endpoints {
				if e.Address == "" || e.Key == "" || e.Weight < 0 || e.Concurrency < 0 {
					t.Errorf("endpoint = %+v, want an address, a key and no negative number", e)
				}
			}
		}
		var p inferencePool
		if json.Unmarshal(text, &p) == nil {
			if w, err := p.selection(); err == nil && (w.selector == "" || len(w.ports) == 0) {
				t.Errorf("wanted = %+v, want a selector and ports", w)
			}
		}
	})
}
