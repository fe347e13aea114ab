package proxy

import (
	"context"
	"net"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/front/acme"
	"penstock/proxy/front/listen"
	"penstock/proxy/telemetry/guard"
)

// Options configures an Edge.
type Options struct {
	Config *config.File // validated
	Log    *zap.Logger
	// MemoryLimit is how much memory the process may use, in bytes. The shares for request
	// bodies and replies are taken from it.
	MemoryLimit int64
	// Public and Admin are the listeners. Admin may be nil.
	Public, Admin net.Listener
	// InheritedPublic says that a service manager owns Public's socket, which outlives the
	// process. SharedPort says that another process may be listening on the same ports.
	InheritedPublic, SharedPort bool
	// Guard catches panics. Nil means a guard of the edge's own.
	Guard *guard.Guard
	// Hurry is closed to end a running drain at once. Nil means never.
	Hurry <-chan struct{}
	// Direct reports, when a drain begins, that no balancer has to notice it: timeouts.linger
	// then ends as soon as no call runs. Nil means that a balancer may route to the edge.
	Direct func() bool
	// Certificate makes the public listener speak TLS; may be nil.
	Certificate *listen.Certificate
	// AdminCertificate makes the admin listener speak TLS; may be nil.
	AdminCertificate *listen.Certificate
	// ACME obtains the certificates, and Challenges answers the authority over HTTP. Both may be
	// nil.
	ACME       *acme.Manager
	Challenges *acme.Server
	LogDropped func() uint64 // lines lost by the log's sink; may be nil
	// Lookup resolves the names of upstreams with `resolve`. Nil means the system's resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Load reads the configuration again, for reloads: it returns the file, or nil and what is
	// wrong. Nil means that there is no file.
	Load func() (*config.File, config.Problems)
	// Parse reads a configuration to compare with the running one, just as Load reads the file
	// in place. Nil disables the comparison.
	Parse func(src []byte, called string) (*config.File, config.Problems)
}

// secure puts TLS in front of ln when there is a certificate. The handshake runs on the
// connection's own goroutine, under the header's clock.
func (o *Options) secure(ln *listen.Listener) net.Listener {
	if o.Certificate == nil {
		return ln
	}
	return ln.TLS(o.Certificate.Config())
}

// addresses returns where the two listeners are, which may differ from the configuration. The admin
// address is empty without an admin listener.
func (o *Options) addresses() (public, admin string) {
	if o.Admin != nil {
		admin = o.Admin.Addr().String()
	}
	return o.Public.Addr().String(), admin
}
