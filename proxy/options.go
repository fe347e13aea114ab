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

// Options configure an Edge.
type Options struct {
	Config *config.File // validated
	Log    *zap.Logger
	// MemoryLimit is how much memory the process may use, in bytes.
	MemoryLimit int64
	// Public and Admin are the listeners. Admin may be nil.
	Public, Admin net.Listener
	// InheritedPublic is true if a service manager owns Public's socket. SharedPort is true if
	// another process may listen on the same ports.
	InheritedPublic, SharedPort bool
	// Guard catches panics. If it is nil, the edge creates a guard.
	Guard *guard.Guard
	// Hurry shortens a running drain when it is closed. It may be nil.
	Hurry <-chan struct{}
	// Direct is called at the start of a drain. It reports whether clients reach the edge without a
	// load balancer. If so, the wait for timeouts.linger ends once no call is running. If Direct is
	// nil, the edge assumes that a load balancer may route to it.
	Direct func() bool
	// Certificate makes the public listener use TLS. It may be nil.
	Certificate *listen.Certificate
	// AdminCertificate makes the admin listener use TLS. It may be nil.
	AdminCertificate *listen.Certificate
	// ACME obtains the certificates. Challenges responds to the challenges of the certificate
	// authority. Both may be nil.
	ACME       *acme.Manager
	Challenges *acme.ChallengeServer
	LogDropped func() uint64 // returns how many lines the log sink has lost; may be nil
	// Lookup resolves the host names of upstreams that use `resolve`. If it is nil, the system's
	// resolver is used.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Load reads the configuration again for a reload. It returns the file, or nil and the
	// problems, and the files that it names. Load is nil if the configuration does not come from a
	// file.
	Load func() (*config.File, config.Problems, []string)
	// Parse reads a configuration to compare it with the running configuration. If Parse is nil,
	// the edge cannot compare configurations.
	Parse func(src []byte, called string) (*config.File, config.Problems)
}

// wrapTLS adds TLS to ln. The handshake runs on the connection's goroutine, and its time counts
// against the timeout for request headers.
func (o *Options) wrapTLS(ln *listen.Listener) net.Listener {
	if o.Certificate == nil {
		return ln
	}
	return ln.WithTLS(o.Certificate.TLSConfig())
}

// addresses returns the actual addresses of the two listeners. admin is empty if there is no admin
// listener.
func (o *Options) addresses() (public, admin string) {
	if o.Admin != nil {
		admin = o.Admin.Addr().String()
	}
	return o.Public.Addr().String(), admin
}
