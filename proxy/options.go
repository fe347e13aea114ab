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
	// MemoryLimit is how much memory the process may use, in bytes. It includes the memory for
	// request bodies and replies.
	MemoryLimit int64
	// Public and Admin are the listeners. Admin may be nil.
	Public, Admin net.Listener
	// InheritedPublic is true if a service manager owns Public's socket, which then outlives the
	// process. SharedPort is true if another process may listen on the same ports.
	InheritedPublic, SharedPort bool
	// Guard catches panics. Nil means that the edge makes its own guard.
	Guard *guard.Guard
	// Hurry ends a running drain at once when it is closed. A nil Hurry never ends a drain.
	Hurry <-chan struct{}
	// Direct is called when a drain starts. It reports whether clients reach the edge without a
	// load balancer. timeouts.linger then ends once no call runs. A nil Direct means that a load
	// balancer may route to the edge.
	Direct func() bool
	// Certificate makes the public listener speak TLS; may be nil.
	Certificate *listen.Certificate
	// AdminCertificate makes the admin listener speak TLS; may be nil.
	AdminCertificate *listen.Certificate
	// ACME obtains the certificates. Challenges answers the authority over HTTP. Both may be nil.
	ACME       *acme.Manager
	Challenges *acme.Server
	LogDropped func() uint64 // lines lost by the log's sink; may be nil
	// Lookup resolves the names of upstreams with `resolve`. Nil means the system's resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Load reads the configuration again for a reload. It returns the file, or nil and the
	// problems. A nil Load means that there is no file.
	Load func() (*config.File, config.Problems)
	// Parse reads a configuration that is to be compared with the running one. It reads it in the
	// same way as Load reads the file. A nil Parse disables the comparison.
	Parse func(src []byte, called string) (*config.File, config.Problems)
}

// secure adds TLS to ln if there is a certificate. The handshake runs on the connection's own
// goroutine and counts against the request header timeout.
func (o *Options) secure(ln *listen.Listener) net.Listener {
	if o.Certificate == nil {
		return ln
	}
	return ln.TLS(o.Certificate.Config())
}

// addresses returns the actual addresses of the two listeners, which may differ from the
// configuration. The admin address is empty without an admin listener.
func (o *Options) addresses() (public, admin string) {
	if o.Admin != nil {
		admin = o.Admin.Addr().String()
	}
	return o.Public.Addr().String(), admin
}
