package upstreams

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
	"penstock/config/testkit/kubeapi"
	"penstock/upstreams/dns"
)

// kubeTest is a set whose upstream "a" discovers the pods of a fake cluster.
type kubeTest struct {
	t       *testing.T
	api     *kubeapi.Server
	set     *Set
	spec    config.Upstream
	changed chan struct{}
}

func startKube(t *testing.T, pods ...kubeapi.Object) *kubeTest {
	t.Helper()
	known := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, known) }) // runs after all cleanups registered below
	k := &kubeTest{t: t, api: kubeapi.Start(t), changed: make(chan struct{}, 100)}
	for _, p := range pods {
		k.api.PutObject(kubeapi.PodsPath, p)
	}
	engine := fakeEngine(t, "vllm")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(engine.URL, "http://"))
	k.spec = config.Upstream{
		Name: "a", URL: "http://vllm.test:" + port,
		Kubernetes: config.Kubernetes{Selector: "app=vllm", Server: k.api.URL, Account: k.api.Account},
	}
	k.set = newTestSet(t, Options{OnAddresses: func() { k.changed <- struct{}{} }})
	t.Cleanup(func() { k.set.Close(t.Context()) })
	return k
}

// named returns the upstream with this pod's label, even if no plan contains the upstream.
func (k *kubeTest) named(label string) *Upstream {
	k.t.Helper()
	for _, u := range k.set.All() {
		if u.Label() == label {
			return u
		}
	}
	k.t.Fatalf("there is no upstream %s", label)
	return nil
}

// canLease reports whether the upstream is eligible and grants a lease.
func canLease(u *Upstream) bool {
	now := time.Now()
	l, leased := u.TryLease("", PoolText, 1, now)
	if leased {
		l.Release(OutcomeOK)
	}
	return leased && u.IsEligibleIn(StateUp, MomentOf(now))
}

// TestPodIsDeleted checks that a pod gets no new calls once its deletion event has arrived, even
// before the next plan. Its running calls continue.
func TestPodIsDeleted(t *testing.T) {
	a := kubeapi.NewPod("vllm-0", "u0", "127.0.0.1", "penstock/concurrency=7", "penstock/weight=3", "llm-d.ai/engine-type=vllm")
	k := startKube(t, a)
	if ups := apply(t, k.set, k.spec).Upstream("a"); len(ups) != 1 {
		t.Fatalf("%d upstreams, want 1", len(ups))
	}
	u := k.named("a@vllm-0")
	eventually(t, "up", func() bool { return canLease(u) })
	st := u.Status(time.Now())
	if st.Origin != "pod llm/vllm-0" || u.Limits().Text != 7 || u.settings.Load().weight != 3 || u.settings.Load().spec.Engine != "vllm" {
		t.Errorf("%s has %+v, weight %v, engine %s", st.Origin, u.Limits(), u.settings.Load().weight, u.settings.Load().spec.Engine)
	}
	running, ok := u.TryLease("", PoolText, 1, time.Now())
	if !ok {
		t.Fatal("no lease")
	}
	k.api.PutObject(kubeapi.PodsPath, kubeapi.DeletingPod(a))
	eventually(t, "no new call", func() bool { return !canLease(u) && u.State() == StateRetiring })
	if why := u.DescribeObstacle("x", time.Now()); !strings.Contains(why, "Kubernetes") || u.slots.inFlight() != 1 {
		t.Errorf("DescribeObstacle = %q with %d calls, want one that names Kubernetes, with 1 call", why, u.slots.inFlight())
	}
	<-k.changed
	after := apply(t, k.set, k.spec).Upstream("a")
	if len(after) != 1 || after[0].Label() != "a" || canLease(after[0]) {
		t.Errorf("without pods there is %s, which takes calls: %v", after[0].Label(), canLease(after[0]))
	}
	if len(k.set.All()) != 2 {
		t.Error("the upstream is gone before its call")
	}
	running.Release(OutcomeOK)
	eventually(t, "the upstream is gone", func() bool { return len(k.set.All()) == 1 })
	k.api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("vllm-0", "u1", "127.0.0.1"))
	<-k.changed
	apply(t, k.set, k.spec)
	if u = k.named("a@vllm-0"); !strings.Contains(string(u.ID()), "u1:") {
		t.Errorf("the pod that was replaced is %s", u.ID())
	}
	eventually(t, "up again", func() bool { return canLease(u) })
}

// TestPodIsDeletedDuringAPlan checks that a deletion event takes effect if it arrives between a
// plan and its commit.
func TestPodIsDeletedDuringAPlan(t *testing.T) {
	a := kubeapi.NewPod("vllm-0", "u0", "127.0.0.1")
	k := startKube(t, a)
	apply(t, k.set, k.spec)
	u := k.named("a@vllm-0")
	eventually(t, "up", func() bool { return canLease(u) })
	plan, err := k.set.PlanChanges([]config.Upstream{k.spec}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.api.DeleteObject(kubeapi.PodsPath, "vllm-0")
	eventually(t, "no new call", func() bool { return !canLease(u) })
	k.set.Commit(plan)
	if canLease(u) {
		t.Error("an older plan brings the pod back")
	}
	k.spec.Kubernetes = config.Kubernetes{}
	apply(t, k.set, k.spec)
	if plain := k.named("a"); plain.removal.podGone.Load() {
		t.Error("an upstream without Kubernetes waits for pods")
	}
}

// TestKubernetesIsAway checks that the edge dials the host in the URL until the API server has
// responded. After that, the edge keeps its upstreams even if the API server is unreachable.
func TestKubernetesIsAway(t *testing.T) {
	k := startKube(t, kubeapi.NewPod("vllm-0", "u0", "127.0.0.1"))
	k.spec.URL = strings.Replace(k.spec.URL, "vllm.test", "127.0.0.1", 1)
	k.api.SetUnavailable(true)
	apply(t, k.set, k.spec)
	byName := k.named("a")
	eventually(t, "up by its name", func() bool { return canLease(byName) })
	if d := k.set.DiscoveryStatuses(time.Now()); len(d) != 1 || d[0].Age != -1 || d[0].Trouble == "" || d[0].Stale <= 0 || d[0].Failed == 0 {
		t.Errorf("DiscoveryStatuses = %+v, want 1 in trouble without an answer", d)
	}
	k.api.SetUnavailable(false)
	<-k.changed
	if !canLease(byName) {
		t.Error("the name takes no calls before the pods do")
	}
	apply(t, k.set, k.spec)
	u := k.named("a@vllm-0")
	eventually(t, "up", func() bool { return canLease(u) })
	eventually(t, "no trouble", func() bool { return k.set.DiscoveryStatuses(time.Now())[0].Trouble == "" })
	k.api.SetUnavailable(true)
	eventually(t, "trouble", func() bool { return k.set.DiscoveryStatuses(time.Now())[0].Trouble != "" })
	apply(t, k.set, k.spec)
	if d := k.set.DiscoveryStatuses(time.Now())[0]; !canLease(u) || d.Targets != 1 || d.Age < 0 || d.Source != "pods llm/app=vllm:"+urlPort(k.spec.URL) {
		t.Errorf("without an API server: %+v", d)
	}
}

// TestPodReadiness checks that an engine that answers its probes gets calls even if its pod is not
// ready. A pod whose readiness changes is probed immediately.
func TestPodReadiness(t *testing.T) {
	a := kubeapi.NewPod("vllm-0", "u0", "127.0.0.1")
	k := startKube(t, kubeapi.UnreadyPod(a))
	k.spec.Probe.Interval = config.Duration(time.Hour)
	apply(t, k.set, k.spec)
	u := k.named("a@vllm-0")
	eventually(t, "up although it is not ready", func() bool { return canLease(u) })
	probed := func() time.Time { return u.Health.factsSnapshot().probedAt }
	for _, p := range []kubeapi.Object{a, kubeapi.UnreadyPod(a)} {
		before := probed()
		k.api.PutObject(kubeapi.PodsPath, p)
		eventually(t, "a probe", func() bool { return probed().After(before) })
	}
	if !canLease(u) || len(k.changed) != 0 {
		t.Errorf("it takes calls: %v, %d plans", canLease(u), len(k.changed))
	}
}

// TestResolveSRV checks that every SRV record becomes a separate upstream. If the name stops
// resolving, the upstreams remain.
func TestResolveSRV(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	records := []*net.SRV{{Target: "a.test.", Port: 8001, Weight: 1}, {Target: "a.test.", Port: 8002, Weight: 3}}
	var failure error
	core, lines := observer.New(zap.WarnLevel)
	s := newTestSet(t, Options{
		Log:       zap.New(core),
		LookupSRV: func(context.Context, string) ([]*net.SRV, error) { return slices.Clone(records), failure },
		Lookup:    func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil },
	})
	defer s.Close(t.Context())
	resolve, err := config.ParseResolve("srv:_http._tcp.vllm")
	if err != nil {
		t.Fatal(err)
	}
	spec := config.Upstream{Name: "a", URL: "http://vllm:7", Resolve: resolve, Weight: 4}
	plan, err := s.PlanChanges([]config.Upstream{spec}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ups := plan.Upstream("a")
	if len(ups) != 2 || ups[0].Label() != "a@127.0.0.1:8001" || ups[1].Label() != "a@127.0.0.1:8002" {
		t.Fatalf("%d upstreams, want a@127.0.0.1:8001 and a@127.0.0.1:8002", len(ups))
	}
	for i, u := range ups {
		st := u.settings.Load()
		if o := st.transport.options; o.URL != "http://127.0.0.1:800"+string('1'+rune(i)) || o.Host != "vllm:7" {
			t.Errorf("%s is asked at %s as %s", u.Label(), o.URL, o.Host)
		}
		if want := []float64{2, 6}[i]; st.weight != want {
			t.Errorf("%s has the weight %v", u.Label(), st.weight)
		}
	}
	d := plan.discoveries["srv _http._tcp.vllm"]
	records[0] = &net.SRV{Target: "a.test.", Port: 8001, Weight: 3}
	if !d.refresh(t.Context(), s) {
		t.Error("another weight is no change")
	}
	failure = errors.New("no such name")
	if d.refresh(t.Context(), s) || len(d.endpoints) != 2 {
		t.Error("a name that does not resolve changed the endpoints")
	}
	d.refresh(t.Context(), s)
	if n := lines.Len(); n != 1 {
		t.Errorf("%d lines of two look-ups that failed", n)
	}
	failure = nil
	d.refresh(t.Context(), s)
	failure = errors.New("no such name")
	d.refresh(t.Context(), s)
	if n := lines.Len(); n != 2 {
		t.Errorf("%d lines once it has failed again", n)
	}
}

// TestLookUpEngines checks that LookUpEngines returns the engines that it found, or why it found
// none.
func TestLookUpEngines(t *testing.T) {
	api := kubeapi.Start(t)
	pods := config.Kubernetes{Selector: "app=vllm", Server: api.URL, Account: api.Account}
	find := func(u config.Upstream, r *dns.Resolver) *DiscoveryResult {
		u.Name = "a"
		return LookUpEngines(t.Context(), &u, r)
	}
	kube := config.Upstream{URL: "http://vllm.test:8000", Kubernetes: pods}
	if f := find(kube, nil); f.Trouble == "" || len(f.Engines) != 0 {
		t.Errorf("no pods: %+v", f)
	}
	api.PutObject(kubeapi.PodsPath, kubeapi.NewPod("vllm-0", "u0", "10.0.0.1", "app=vllm"))
	api.PutObject(kubeapi.PodsPath, kubeapi.UnreadyPod(kubeapi.NewPod("vllm-1", "u1", "10.0.0.2", "app=vllm")))
	want := []FoundEngine{{Address: "10.0.0.1:8000", Pod: "vllm-0"}, {Address: "10.0.0.2:8000", Pod: "vllm-1", NotReady: true}}
	if f := find(kube, nil); f.Trouble != "" || !slices.Equal(f.Engines, want) {
		t.Errorf("engines of pods = %+v, want %+v", f, want)
	}
	api.RotateToken("another", false)
	if f := find(kube, nil); !strings.Contains(f.Trouble, "refuses the token") {
		t.Errorf("a token that is no more: %+v", f)
	}
	names := &dns.Resolver{
		Host: func(_ context.Context, name string) ([]string, error) {
			if name != "vllm.test" && name != "empty.test" {
				return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
			}
			return map[string][]string{"vllm.test": {"10.0.0.4", "10.0.0.3"}}[name], nil
		},
		SRV: func(context.Context, string) ([]*net.SRV, error) {
			return []*net.SRV{{Target: "vllm.test", Port: 9000, Weight: 2}}, nil
		},
	}
	every := config.Resolve{Every: config.Duration(time.Second)}
	host := func(name string) config.Upstream {
		return config.Upstream{URL: "http://" + name + ":8000", Resolve: every}
	}
	if f := find(host("vllm.test"), names); f.Source != "DNS vllm.test" || len(f.Engines) != 2 || f.Engines[0].Address != "10.0.0.3" {
		t.Errorf("engines of a name = %+v, want 2 from DNS vllm.test", f)
	}
	if f := find(host("gone.test"), names); !strings.Contains(f.Trouble, "no such host") {
		t.Errorf("a name that is not there: %+v", f)
	}
	if f := find(host("empty.test"), names); f.Trouble == "" {
		t.Errorf("a name without addresses: %+v", f)
	}
	service := config.Resolve{Every: every.Every, SRV: "_http._tcp.vllm"}
	f := find(config.Upstream{URL: "http://vllm", Resolve: service}, names)
	if f.Source != "SRV _http._tcp.vllm" || len(f.Engines) != 2 || f.Engines[0] != (FoundEngine{Address: "10.0.0.3:9000", Weight: 1}) {
		t.Errorf("engines of SRV records = %+v, want 1 at 10.0.0.3:9000", f)
	}
	if f := find(config.Upstream{URL: "http://10.0.0.1:8000"}, names); f != nil {
		t.Errorf("an address: %+v", f)
	}
}
