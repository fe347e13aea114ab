package support

import (
	"cmp"
	"net"
	"net/netip"
	"strings"

	"penstock/config"
	"penstock/config/unixsocket"
	"penstock/proxy"
	"penstock/proxy/build"
	"penstock/proxy/operate/admin"
)

func collect(o *Options) []part {
	parts := []part{
		{name: "version.txt", about: "version and build", content: []byte("penstock " + build.Line() + "\n")},
		{name: "system.txt", about: "facts of the system; of the environment names alone", content: systemFacts(o.Environ)},
	}
	redacted, file := configuration(o.Config)
	parts = append(parts, file...)
	at := edgeOf(o.Edge, &redacted.Admin)
	parts = append(parts, running(at)...)
	hide := newScrubber(append(redacted.Secrets, at.Token))
	for i := range parts {
		parts[i].content, parts[i].missing = hide.bytes(parts[i].content), hide.text(parts[i].missing)
	}
	return parts
}

// defaultAdmin is the address of an edge's admin listener if its configuration does not set one.
const defaultAdmin = "127.0.0.1:9090"

// edgeOf returns the given edge. It fills empty fields from the edge's configuration.
func edgeOf(given admin.Edge, says *config.Admin) admin.Edge {
	given.Token = cmp.Or(given.Token, says.Token.Value())
	if given.Admin == "" {
		given.Admin = reachable(says.Listen)
		if says.TLS.Enabled() && !unixsocket.Is(given.Admin) {
			given.Admin = "https://" + given.Admin
		}
	}
	if given.CACert == "" && says.TLS.Enabled() { // the certificate may be self-signed; the file contains its chain
		given.CACert = says.TLS.Cert
	}
	return given
}

// reachable returns the address at which this machine can reach a listener.
func reachable(listen string) string {
	if unixsocket.Is(listen) {
		return listen
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return defaultAdmin
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// configuration returns the configuration, its keys_file, and the output of `penstock check`.
func configuration(name string) (config.Redacted, []part) {
	file := part{name: "config.yaml", about: "the configuration, without secrets and comments"}
	keys := part{name: "keys.yaml", about: "its keys_file, without hashes"}
	check := part{name: "check.txt", about: "what penstock check says of it"}
	if name == "" {
		file.missing = "--config or PENSTOCK_CONFIG names the file"
		return config.Redacted{}, []part{file}
	}
	r, err := config.Redact(name)
	switch {
	case err != nil:
		file.missing = err.Error()
		return r, []part{file}
	case r.Text == nil:
		file.missing = "the file is not YAML, so its secrets cannot be told apart"
	default:
		file.content = r.Text
	}
	parts := []part{file}
	if r.Keys != nil {
		keys.content = r.Keys
		parts = append(parts, keys)
	}
	check.content = []byte(checked(name))
	return r, append(parts, check)
}

// checked returns the output of `penstock check`. It omits excerpts from the file, because they may
// contain secrets.
func checked(name string) string {
	f, problems := proxy.Load(name)
	var b strings.Builder
	for _, p := range problems {
		p.Excerpt = ""
		b.WriteString(p.String() + "\n")
	}
	if f != nil {
		b.WriteString(name + ": ok\n")
	}
	return b.String()
}
