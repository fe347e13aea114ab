package kubernetes

import (
	"encoding/json"
	"errors"
	"net/url"
)

// podCollection is the collection of an upstream's pods.
type podCollection struct{ w *PodWatcher }

func (c podCollection) listRequest() (string, url.Values, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.w.selection == nil {
		return "", nil, errPoolUnknown
	}
	return "/api/v1/namespaces/" + c.w.namespace + "/pods", url.Values{"labelSelector": {c.w.selection.selector}}, nil
}

func (c podCollection) replaceAll(items []json.RawMessage) error {
	if len(items) > maxPods {
		return errTooMany
	}
	next := make(map[string]podState, len(items))
	ports := c.w.ports()
	for _, item := range items {
		p, err := readPod(item)
		if err != nil {
			return err
		}
		next[p.Metadata.UID] = c.w.derivePodState(p, ports)
	}
	c.w.replacePods(next)
	return nil
}

func (c podCollection) applyEvent(event string, object json.RawMessage) error {
	p, err := readPod(object)
	if err != nil {
		return err
	}
	if event == "DELETED" {
		c.w.setPod(p.Metadata.UID, podState{}, true)
		return nil
	}
	if n := c.w.setPod(p.Metadata.UID, c.w.derivePodState(p, c.w.ports()), false); n > maxPods {
		return errTooMany
	}
	return nil
}

// errPoolUnknown is returned while the pool is unknown, because the selector for its pods is then
// unknown too.
var errPoolUnknown = errors.New("the InferencePool is not known yet")

// poolCollection is the collection whose only element is the InferencePool of an upstream.
type poolCollection struct{ w *PodWatcher }

func (c poolCollection) listRequest() (string, url.Values, error) {
	return "/apis/inference.networking.k8s.io/v1/namespaces/" + c.w.namespace + "/inferencepools",
		url.Values{"fieldSelector": {"metadata.name=" + c.w.spec.Pool}}, nil
}

// replaceAll stores the pool. If the pool does not exist, the last known selector and ports remain.
func (c poolCollection) replaceAll(items []json.RawMessage) error {
	for _, item := range items {
		if err := c.applyEvent("MODIFIED", item); err != nil {
			return err
		}
	}
	if !c.w.hasSelection() {
		return errors.New("there is no InferencePool of that name")
	}
	return nil
}

func (c poolCollection) applyEvent(event string, object json.RawMessage) error {
	var p inferencePool
	if json.Unmarshal(object, &p) != nil {
		return errNotAPI
	}
	if event == "DELETED" || p.Metadata.Name != c.w.spec.Pool {
		return nil
	}
	next, err := p.selection()
	if err == nil {
		c.w.setSelection(next)
	}
	return err
}
