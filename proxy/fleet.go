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
	if !c.Fleet.HasStore() {
		return nil, nil
	}
	store, err := storeOptions(&c.Fleet.Store)
	if err != nil {
		return nil, err
	}
	e.signer = sign.New(c.Fleet.Store.Prefix, secretValues(c.Fleet.SigningSecrets()))
	return fleet.New(fleet.Options{
		Store: store, Timeout: c.Fleet.Store.Timeout.D(), Edges: c.Fleet.Edges, WhenLost: c.Fleet.Lost,
		Signer: e.signer, Log: e.log, Metrics: e.metrics,
		Self: func() fleet.Member {
			running, calls := e.reloads.RunningSnapshot(), e.services.Calls
			m := fleet.Member{
				Name: fleetMemberName(e.opts.Public.Addr()), Version: build.Version(), Config: running.Config.Digest(),
				Started: started.Unix(), InFlight: int(calls.InFlight()),
				Generation: running.Version, Calls: calls.FinishedCount(),
			}
			if e.admin != nil {
				v := admin.LastStateVerdict(e.admin)
				m.Level, m.Verdict = v.Level, v.Text
			}
			return m
		},
	}), nil
}

// storeOptions returns the options for the store. If sentinels are configured, it omits the server
// name for TLS, so that each connection verifies the name that it has dialed.
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
	if s.UsesTLS() {
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

// newStoreKeys returns nil if the configuration does not use keys from the store. If there is a
// local copy, the keys are valid from the first snapshot on.
func newStoreKeys(e *Edge) *keystore.Keys {
	c := e.opts.Config
	if e.fleet == nil || !c.Fleet.Keys.Enabled() {
		return nil
	}
	return keystore.New(keystore.Options{
		Secrets: secretValues(c.Fleet.Keys.Secrets), Client: e.fleet.Client, Prefix: c.Fleet.Store.Prefix, Cache: c.Fleet.Keys.Cache,
		Use: e.reloads.UseSharedKeys, Log: e.log, Metrics: e.metrics,
	})
}

func secretValues(secrets []config.Secret) (all []string) {
	for _, s := range secrets {
		all = append(all, s.Value())
	}
	return all
}

// OpenStoreKeyWriter returns a writer for the keys in the configured store.
func OpenStoreKeyWriter(c *config.File) (*keystore.Writer, error) {
	if !c.Fleet.Keys.Enabled() {
		return nil, errors.New("the configuration has no keys in a store: give it fleet.keys.secrets")
	}
	o, err := storeOptions(&c.Fleet.Store)
	if err != nil {
		return nil, err
	}
	client, err := fleet.DialStore(o)
	if err != nil {
		return nil, fmt.Errorf("the store cannot be reached: %w", err)
	}
	return keystore.NewWriter(client, o.Prefix, secretValues(c.Fleet.Keys.Secrets)), nil
}

// fleetMemberName returns the name of the machine and the port of the edge's API. The port
// distinguishes edges on the same machine. The name stays the same after a restart.
func fleetMemberName(public net.Addr) string {
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
		Edge: link.Edge, Link: link, Upstreams: e.upstreamSet, Poison: e.services.Poison, Metrics: e.metrics,
		Signer: e.signer, Log: e.log, Timeout: e.opts.Config.Fleet.Store.Timeout.D(),
	})
	e.services.Poison.SetFleet(b)
	return b
}

// slotAccountFactory returns a function that creates the fleet-wide slot counter for an upstream.
// It returns nil if the edge does not share state.
func slotAccountFactory(f *fleet.Fleet, queues *queue.Queues) func(*upstreams.Upstream) upstreams.FleetSlotAccount {
	if f == nil {
		return nil
	}
	return func(u *upstreams.Upstream) upstreams.FleetSlotAccount {
		waited, wake := func() bool { return queues.HasWaitersFor(u) }, func() { queues.OnUpstreamChanged(u) }
		return fleet.NewSlots(f, board.UpstreamKey(u.ID()), waited, wake)
	}
}

// joinFleet maintains the edge's membership in its fleet until leave is called. leave returns the
// amounts granted to the edge to the fleet's store.
func (e *Edge) joinFleet() (leave func()) {
	if e.fleet == nil {
		return func() {}
	}
	work, cancel := context.WithCancel(context.Background())
	conversations := places.New(places.Options{
		Link: fleet.NewLink(e.fleet), Secret: e.opts.Config.Fleet.Store.Password.Value(), Metrics: e.metrics,
		Routes: func() []*routing.Route { return e.services.Current().Routes.Routes() },
	})
	loops := []func(context.Context){
		e.fleet.RunHeartbeats, e.fleet.RunReports, e.fleetUsage.Run, e.board.Run, conversations.Run,
		func(ctx context.Context) { fleet.ReceiveTurns(ctx, e.fleet) },
	}
	if e.storeKeys != nil {
		loops = append(loops, e.storeKeys.Run, e.storeKeys.Listen)
	}
	ended := make(chan struct{}, len(loops))
	for _, loop := range loops {
		go e.guard.Loop(work.Done(), guard.PlaceFleet, func() {
			loop(work)
			ended <- struct{}{}
		})
	}
	return func() {
		cancel()
		late := time.After(leaveTimeout)
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

// leaveTimeout is the maximum time that a stopping edge waits for the store.
const leaveTimeout = 2 * time.Second
