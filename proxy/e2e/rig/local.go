package rig

import (
	"context"
	"testing"

	"penstock/config"
	"penstock/proxy"
	"penstock/proxy/access/auth"
	"penstock/proxy/running/reload"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams/engine"
)

// LocalEdge is an edge in the test process.
type LocalEdge struct {
	*Edge
	Next *config.File

	hash   string
	edge   *proxy.Edge
	stop   context.CancelFunc
	served chan error
	ended  bool
}

// Start runs engines and an edge until the test ends.
func Start(t testing.TB, s Setup) *LocalEdge {
	t.Helper()
	if s.Files != nil || s.Under != nil || s.Stderr != nil {
		t.Fatal("the setup has what only the program can have")
	}
	plain, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	p := &LocalEdge{Edge: newEdge(t, s), hash: hash, served: make(chan error, 1)}
	p.Key = plain
	p.run(p.parse(s))
	t.Cleanup(p.End)
	p.waitUpstreamsUp()
	return p
}

func (p *LocalEdge) parse(s Setup) *config.File {
	p.T.Helper()
	text := s.renderConfig(p.Engines, p.hash, "")
	f, problems := config.ParseValid("test.yaml", []byte(text), engine.KnownEngines())
	if f == nil {
		p.T.Fatalf("the test's configuration is wrong:\n%v\n%s", problems, text)
	}
	return f
}

func (p *LocalEdge) run(f *config.File) {
	t := p.T
	t.Helper()
	public, admin := ListenLoopback(t), ListenLoopback(t)
	f.Listen, f.Admin.Listen = public.Addr().String(), admin.Addr().String()
	p.Next = f
	log := p.Setup.Log
	if log == nil {
		var err error
		if log, err = observe.NewLogger(config.Log{Level: "debug", Format: "json"}, p.Log); err != nil {
			t.Fatal(err)
		}
	}
	e, err := proxy.New(proxy.Options{
		Config: f, Log: log, MemoryLimit: 1 << 30, Public: public, Admin: admin, Lookup: p.Setup.Lookup, Guard: p.Setup.Guard,
		Load: func() (*config.File, config.Problems, []string) {
			next := *p.Next // each reload gets its own copy, because the reload may fill in values
			return &next, nil, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.edge, p.Addr = e, public.Addr().String()
	p.URL, p.Admin = "http://"+p.Addr, "http://"+admin.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() { p.served <- e.Serve(ctx) }()
	p.endBeforeDeadline(func() {
		cancel()
		p.Client.CloseIdleConnections()
	})
}

// Reload makes the edge load the configuration from another setup with the same engines.
func (p *LocalEdge) Reload(s Setup) {
	p.T.Helper()
	p.SetNextConfig(s)
	before := p.edge.LastReload()
	p.edge.TriggerReload("test")
	WaitFor(p.T, WaitTimeout, "the configuration has been reloaded", func() bool { return p.edge.LastReload() != before })
	if r := p.edge.LastReload(); !r.OK {
		p.T.Fatalf("not reloaded: %v", r.Problems)
	}
}

// SetNextConfig sets the configuration for the next reload.
func (p *LocalEdge) SetNextConfig(s Setup) {
	p.T.Helper()
	f := p.parse(s)
	f.Listen, f.Admin.Listen = p.Next.Listen, p.Next.Admin.Listen
	p.Next = f
}

// RequestReload requests a reload without waiting for it.
func (p *LocalEdge) RequestReload() { p.edge.TriggerReload("test") }

// LastReload returns the result of the last reload, or nil.
func (p *LocalEdge) LastReload() *reload.Result { return p.edge.LastReload() }

// ReloadAndWait requests a reload, and waits for the result.
func (p *LocalEdge) ReloadAndWait() *reload.Result {
	p.T.Helper()
	before := p.edge.LastReload()
	p.edge.TriggerReload("test")
	WaitFor(p.T, WaitTimeout, "the edge has tried to reload", func() bool { return p.edge.LastReload() != before })
	return p.edge.LastReload()
}

// End checks that the edge is idle, stops it and checks its log. The rig calls End when the test
// ends.
func (p *LocalEdge) End() {
	if p.ended {
		return
	}
	p.ended = true
	p.Client.CloseIdleConnections()
	if !p.Setup.Untidy {
		p.WaitIdle()
		checkIdleMetrics(p.Edge)
		p.Client.CloseIdleConnections()
	}
	p.stop()
	begun := StartWatch()
	if err := Receive(p.T, WaitTimeout, "Serve returns after its context ended", p.served); err != nil {
		p.T.Errorf("Serve: %v", err)
	}
	begun.WantImmediate(p.T, "Serve returns")
	if !p.Setup.Untidy {
		p.checkLog()
	}
}
