package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"penstock/config"
	"penstock/proxy/build"
	"penstock/proxy/fleet"
	"penstock/proxy/fleet/board"
	"penstock/proxy/fleet/keystore"
	"penstock/proxy/fleet/places"
	"penstock/proxy/fleet/sign"
	"penstock/proxy/operate/admin"
	"penstock/proxy/telemetry/guard"
	"penstock/routing"
	"penstock/routing/queue"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// newFleet returns nil if the edge does not share state with other edges.
func (e *Edge) newFleet(c *config.File, started time.Time) (*fleet.Fleet, error) {
	if !c.Fleet.Shared() {
		return nil, nil
	}
	store, err := storeOptions(&c.Fleet.Store)
	if err != nil {
		return nil, err
	}
	e.signer = sign.New(c.Fleet.Store.Prefix, valuesOf(c.Fleet.SigningSecrets()))
	return fleet.New(fleet.Options{
		Store: store, Timeout: c.Fleet.Store.Timeout.D(), Edges: c.Fleet.Edges, WhenLost: c.Fleet.Lost,
		Signer: e.signer, Log: e.log, Metrics: e.metrics,
		Self: func() fleet.Member {
			running, calls := e.reloads.Running(), e.services.Calls
			m := fleet.Member{
				Name: memberName(e.opts.Public.Addr()), Version: build.Version(), Config: running.Config.Digest(),
				Started: started.Unix(), InFlight: int(calls.InFlight()),
				Generation: running.Version, Calls: calls.Finished(),
			}
			if e.admin != nil {
				v := admin.VerdictOf(e.admin)
				m.Level, m.Verdict = v.Level, v.Text
			}
			return m
		},
	}), nil
}

// storeOptions returns the options for the store. If sentinels are configured, it omits the server
// name for TLS, so that each connection verifies the name that it dials.
func storeOptions(s *config.FleetStore) (o fleet.StoreOptions, err error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return o, err
	}
	o = fleet.StoreOptions{
		Addresses: []string{u.Host}, Cluster: s.Cluster, SentinelMaster: s.Sentinel.Master,
		User: s.User, Password: s.Password.Value(), Prefix: s.Prefix,
		SentinelUser: s.Sentinel.User, SentinelPassword: s.Sentinel.Password.Value(),
	}
	if s.Encrypted() {
		files := http1.TLSFiles{CA: s.TLS.CA, Cert: s.TLS.Cert, Key: s.TLS.Key, Insecure: s.TLS.Insecure}
		if o.TLS, err = http1.LoadTLS(files, u.Hostname(), func([]byte) {}); err != nil {
			return o, fmt.Errorf("fleet.store.%w", err)
		}
	}
	switch {
	case s.Sentinel.Master != "":
		o.Addresses = s.Sentinel.Addresses
	case u.Port() == "":
		o.Addresses[0] += ":6379"
	}
	return o, nil
}

// newSharedKeys returns nil if the configuration has no keys in the store. If there is a local
// copy, the keys are valid from the first snapshot on.
func newSharedKeys(e *Edge) *keystore.Keys {
	c := e.opts.Config
	if e.fleet == nil || !c.Fleet.Keys.Enabled() {
		return nil
	}
	return keystore.New(keystore.Options{
		Secrets: valuesOf(c.Fleet.Keys.Secrets), Client: e.fleet.Client, Prefix: c.Fleet.Store.Prefix, Cache: c.Fleet.Keys.Cache,
		Use: e.reloads.UseShared, Log: e.log, Metrics: e.metrics,
	})
}

func valuesOf(secrets []config.Secret) (all []string) {
	for _, s := range secrets {
		all = append(all, s.Value())
	}
	return all
}

// OpenKeys returns a writer for the keys in the configured store.
func OpenKeys(c *config.File) (*keystore.Writer, error) {
	if !c.Fleet.Keys.Enabled() {
		return nil, errors.New("the configuration has no keys in a store: give it fleet.keys.secrets")
	}
	o, err := storeOptions(&c.Fleet.Store)
	if err != nil {
		return nil, err
	}
	client, err := fleet.Dial(o)
	if err != nil {
		return nil, fmt.Errorf("the store cannot be reached: %w", err)
	}
	return keystore.NewWriter(client, o.Prefix, valuesOf(c.Fleet.Keys.Secrets)), nil
}

// memberName returns the name of the machine and the port of the edge's API. The port distinguishes
// edges on the same machine. The name stays the same after a restart.
func memberName(public net.Addr) string {
	_, port, err := net.SplitHostPort(public.String())
	if err != nil { // the public listener is not a TCP listener
		return hostName()
	}
	return hostName() + ":" + port
}

func hostName() string {
	if host, err := os.Hostname(); err == nil {
		return host
	}
	return "unnamed"
}

// newBoard returns nil if the edge does not share state.
func newBoard(e *Edge) *board.Board {
	if e.fleet == nil {
		return nil
	}
	link := fleet.NewLink(e.fleet)
	b := board.New(board.Options{
		Edge: link.Edge, Link: link, Upstreams: e.set, Poison: e.services.Poison, Metrics: e.metrics,
		Signer: e.signer, Log: e.log, Timeout: e.opts.Config.Fleet.Store.Timeout.D(),
	})
	e.services.Poison.ShareBy(b)
	return b
}

// slotAccount returns a function that creates the fleet-wide counter for the slots of an upstream.
// It returns nil if the edge does not share state.
func slotAccount(f *fleet.Fleet, queues *queue.Queues) func(*upstreams.Upstream) upstreams.SlotAccount {
	if f == nil {
		return nil
	}
	return func(u *upstreams.Upstream) upstreams.SlotAccount {
		waited, wake := func() bool { return queues.Awaited(u) }, func() { queues.UpstreamChanged(u) }
		return fleet.NewSlots(f, board.Name(u.ID()), waited, wake)
	}
}

// share maintains the edge's membership in its fleet until leave is called. leave returns the
// edge's share of the limits to the fleet.
func (e *Edge) share() (leave func()) {
	if e.fleet == nil {
		return func() {}
	}
	work, cancel := context.WithCancel(context.Background())
	conversations := places.New(places.Options{
		Link: fleet.NewLink(e.fleet), Secret: e.opts.Config.Fleet.Store.Password.Value(), Metrics: e.metrics,
		Routes: func() []*routing.Route { return e.services.Current().Routes.Routes() },
	})
	loops := []func(context.Context){
		e.fleet.Heartbeats, e.fleet.Reports, e.fleetUsage.Run, e.board.Run, conversations.Run,
		func(ctx context.Context) { fleet.HearTurns(ctx, e.fleet) },
	}
	if e.shared != nil {
		loops = append(loops, e.shared.Run, e.shared.Listen)
	}
	ended := make(chan struct{}, len(loops))
	for _, loop := range loops {
		go e.guard.Loop(work.Done(), guard.Fleet, func() {
			loop(work)
			ended <- struct{}{}
		})
	}
	return func() {
		cancel()
		late := time.After(leaveTime)
		for range loops {
			select {
			case <-ended:
			case <-late:
				return
			}
		}
		e.fleet.Close()
	}
}

// leaveTime is the maximum time that a stopping edge waits for the store.
const leaveTime = 2 * time.Second
