package proxy

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"penstock/config"
	"penstock/proxy/build"
	"penstock/proxy/fleet"
	"penstock/proxy/fleet/board"
	"penstock/proxy/fleet/places"
	"penstock/proxy/guard"
	"penstock/routing"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// newFleet makes the edge's place in the fleet of its configuration, nil where it shares nothing
// with others.
func (e *Edge) newFleet(c *config.File, started time.Time) (*fleet.Fleet, error) {
	if !c.Fleet.Shared() {
		return nil, nil
	}
	s := &c.Fleet.Store
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	o := fleet.Options{
		Store: fleet.StoreOptions{
			Addresses: []string{u.Host}, Cluster: s.Cluster, SentinelMaster: s.Sentinel.Master,
			User: s.User, Password: s.Password.Value(), Prefix: s.Prefix,
			SentinelUser: s.Sentinel.User, SentinelPassword: s.Sentinel.Password.Value(),
		},
		Timeout: s.Timeout.D(), Edges: c.Fleet.Edges, WhenLost: c.Fleet.Lost, Log: e.log, Metrics: e.metrics,
		Self: func() fleet.Member {
			return fleet.Member{
				Name: hostName(), Version: build.Version(), Config: e.reloads.Running().Config.Digest(),
				Started: started.Unix(), InFlight: int(e.services.Calls.InFlight()),
			}
		},
	}
	if strings.HasPrefix(s.URL, "rediss:") {
		files := http1.TLSFiles{CA: s.TLS.CA, Cert: s.TLS.Cert, Key: s.TLS.Key, Insecure: s.TLS.Insecure}
		if o.Store.TLS, err = http1.LoadTLS(files, u.Hostname(), func([]byte) {}); err != nil {
			return nil, fmt.Errorf("fleet.store.%w", err)
		}
	}
	switch {
	case s.Sentinel.Master != "":
		o.Store.Addresses = s.Sentinel.Addresses
	case u.Port() == "":
		o.Store.Addresses[0] += ":6379"
	}
	return fleet.New(o), nil
}

// hostName is the name of the machine.
func hostName() string {
	if host, err := os.Hostname(); err == nil {
		return host
	}
	return "unnamed"
}

// newBoard makes the edge's side of the board, by which the edges of a fleet know of each other's
// work; nil where it shares nothing.
func newBoard(e *Edge) *board.Board {
	if e.fleet == nil {
		return nil
	}
	link := fleet.NewLink(e.fleet)
	b := board.New(board.Options{
		Edge: link.Edge, Link: link, Upstreams: e.set, Poison: e.services.Poison, Metrics: e.metrics,
	})
	e.services.Poison.ShareBy(b)
	return b
}

// slotAccount returns what counts the slots of an upstream over the whole fleet; nil where the edge
// is alone.
func slotAccount(f *fleet.Fleet) func(upstreams.ID) upstreams.SlotAccount {
	if f == nil {
		return nil
	}
	return func(id upstreams.ID) upstreams.SlotAccount { return fleet.NewSlots(f, board.Name(id)) }
}

// share keeps the edge in its fleet until the returned function is called. That gives back what the
// edge holds of others' limits, as far as the store answers.
func (e *Edge) share() (leave func()) {
	if e.fleet == nil {
		return func() {}
	}
	work, cancel := context.WithCancel(context.Background())
	conversations := places.New(places.Options{
		Link: fleet.NewLink(e.fleet), Secret: e.opts.Config.Fleet.Store.Password.Value(), Metrics: e.metrics,
		Routes: func() []*routing.Route { return e.services.Current().Routes.Routes() },
	})
	parts := []func(context.Context){e.fleet.Heartbeats, e.fleet.Reports, e.fleetUsage.Run, e.board.Run, conversations.Run}
	ended := make(chan struct{}, len(parts))
	for _, run := range parts {
		go e.guard.Loop(work.Done(), guard.Fleet, func() {
			run(work)
			ended <- struct{}{}
		})
	}
	return func() {
		cancel()
		late := time.After(leaveTime)
		for range parts {
			select {
			case <-ended:
			case <-late:
				return
			}
		}
		e.fleet.Close()
	}
}

// leaveTime bounds how long an edge that ends waits for the store.
const leaveTime = 2 * time.Second
