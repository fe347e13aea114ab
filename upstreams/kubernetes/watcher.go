package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/http1"
)

// Options configures a PodWatcher.
type Options struct {
	Log   *zap.Logger
	Guard http1.Guard
}

// PodWatcher watches the pods of one upstream. It is safe for concurrent use.
type PodWatcher struct {
	log       *zap.Logger
	spec      config.Kubernetes
	account   *apiAccess
	namespace string
	podFeed   *reflector
	poolFeed  *reflector

	mu         sync.Mutex
	selection  *podSelection       // nil while the pool is unknown
	pods       map[string]podState // by UID
	lastListed time.Time           // time of the last complete list of pods, or zero
	onChange   func()              // set by Run
}

// WatcherStatus is the state of a PodWatcher.
type WatcherStatus struct {
	Listed  time.Time // time of the last complete list, or zero
	Trouble string    // why the watch fails; empty while it works
	Failing time.Time // time of the last useful response, if Trouble is set
	Failed  uint64    // number of failed sessions
}

// New returns a PodWatcher for the configured pods. port is the engines' port, unless the
// configuration or the pool sets a different port. New sends no request.
func New(spec *config.Kubernetes, port int, o Options) *PodWatcher {
	w := &PodWatcher{
		log: o.Log, spec: *spec, pods: map[string]podState{}, onChange: func() {},
		account: &apiAccess{spec.Server, cmp.Or(spec.Account, config.MountedAccountFolder), o.Guard},
	}
	w.podFeed, w.poolFeed = newReflector(w, w.account, o.Log), newReflector(w, w.account, o.Log)
	w.namespace = spec.Namespace
	if w.namespace == "" {
		own, err := w.account.readFile("namespace")
		if w.namespace = own; err != nil || !config.IsObjectName(own) {
			w.namespace = "default"
		}
	}
	if spec.Pool == "" {
		w.selection = &podSelection{selector: spec.Selector, ports: spec.Ports}
		if len(spec.Ports) == 0 {
			w.selection.ports = []int{port}
		}
	}
	return w
}

// String describes the watched pods or pool.
func (w *PodWatcher) String() string {
	if w.spec.Pool != "" {
		return "InferencePool " + w.namespace + "/" + w.spec.Pool
	}
	ports := strings.Trim(strings.ReplaceAll(fmt.Sprint(w.ports()), " ", ","), "[]")
	return "pods " + w.namespace + "/" + w.spec.Selector + ":" + ports
}

// PodName returns a description of a pod that includes the namespace.
func (w *PodWatcher) PodName(pod string) string { return "pod " + w.namespace + "/" + pod }

// ListOnce lists the pods once. If there is a pool, Sync reads the pool first.
func (w *PodWatcher) ListOnce(ctx context.Context) error {
	api, err := w.account.openClient()
	if err == nil {
		defer api.close()
		if w.spec.Pool != "" {
			_, err = w.poolFeed.listAll(ctx, api, poolCollection{w})
		}
		if err == nil {
			_, err = w.podFeed.listAll(ctx, api, podCollection{w})
		}
	}
	w.podFeed.recordEnd(err)
	return err
}

// Run watches the pods until ctx is done. It calls the function changed after every change of the
// endpoints.
func (w *PodWatcher) Run(ctx context.Context, changed func()) {
	w.mu.Lock()
	w.onChange = changed
	w.mu.Unlock()
	w.podFeed.run(ctx, podCollection{w})
}

// HasPool reports whether the PodWatcher watches an InferencePool.
func (w *PodWatcher) HasPool() bool { return w.spec.Pool != "" }

// RunPool watches the pool until ctx is done. It must run concurrently with Run.
func (w *PodWatcher) RunPool(ctx context.Context) { w.poolFeed.run(ctx, poolCollection{w}) }

// Endpoints returns the endpoints according to the last complete list and later events, sorted by
// pod and port. listed is false before the first list.
func (w *PodWatcher) Endpoints() (out []PodEndpoint, listed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.pods {
		out = append(out, k.endpoints...)
	}
	slices.SortFunc(out, func(a, b PodEndpoint) int {
		return cmp.Or(strings.Compare(a.Pod, b.Pod), strings.Compare(a.Key, b.Key))
	})
	return out, !w.lastListed.IsZero()
}

// Status returns the current state.
func (w *PodWatcher) Status() WatcherStatus {
	trouble, since, failed := w.podFeed.failureState()
	pools, poolsSince, poolsFailed := w.poolFeed.failureState()
	if trouble == "" {
		trouble, since = pools, poolsSince
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return WatcherStatus{Listed: w.lastListed, Trouble: trouble, Failing: since, Failed: failed + poolsFailed}
}

func (w *PodWatcher) ports() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.selection == nil {
		return nil
	}
	return w.selection.ports
}

// hasSelection reports whether the pods' selector is known.
func (w *PodWatcher) hasSelection() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.selection != nil
}

// setSelection sets the selector and the ports of the pods. If they have changed, the watcher lists
// the pods again.
func (w *PodWatcher) setSelection(next *podSelection) {
	w.mu.Lock()
	same := w.selection != nil && w.selection.selector == next.selector && slices.Equal(w.selection.ports, next.ports)
	w.selection = next
	w.mu.Unlock()
	if !same {
		w.podFeed.restart()
	}
}

// derivePodState returns the endpoints of a pod. It logs each new problem found in the pod's
// annotations.
func (w *PodWatcher) derivePodState(p *pod, ports []int) podState {
	next := p.endpoints(ports)
	w.mu.Lock()
	before := w.pods[p.Metadata.UID].problem
	w.mu.Unlock()
	if next.problem != "" && next.problem != before {
		w.log.Warn("pod's annotation is not used", zap.String("pod", p.Metadata.Name),
			zap.String("problem", next.problem))
	}
	return next
}

// replacePods stores a complete list.
func (w *PodWatcher) replacePods(next map[string]podState) {
	w.mu.Lock()
	same := !w.lastListed.IsZero() && maps.EqualFunc(w.pods, next, podState.sameEndpoints)
	w.pods, w.lastListed = next, time.Now()
	changed := w.onChange
	w.mu.Unlock()
	if !same {
		changed()
	}
}

// setPod stores the state of one pod, or removes the pod if gone is true. It returns the number of
// pods.
func (w *PodWatcher) setPod(uid string, next podState, gone bool) (count int) {
	w.mu.Lock()
	same := w.pods[uid].sameEndpoints(next)
	if w.pods[uid] = next; gone {
		delete(w.pods, uid)
	}
	changed, count := w.onChange, len(w.pods)
	w.mu.Unlock()
	if !same {
		changed()
	}
	return count
}

func (k podState) sameEndpoints(other podState) bool {
	return slices.Equal(k.endpoints, other.endpoints)
}
