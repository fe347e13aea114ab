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

func collectFiles(o *Options) []bundleFile {
	parts := []bundleFile{
		{name: "version.txt", description: "version and build", content: []byte("penstock " + build.VersionLine() + "\n")},
		{name: "system.txt", description: "facts of the system; of the environment names alone", content: systemFacts(o.Environ)},
	}
	redacted, file := collectConfigFiles(o.Config)
	parts = append(parts, file...)
	at := edgeWithDefaults(o.Edge, &redacted.Admin)
	parts = append(parts, fetchEdgePages(at)...)
	hide := newScrubber(append(redacted.Secrets, at.Token))
	for i := range parts {
		parts[i].content, parts[i].missingReason = hide.scrubBytes(parts[i].content), hide.scrubText(parts[i].missingReason)
	}
	return parts
}

// defaultAdmin is the address of an edge's admin listener if its configuration does not set one.
const defaultAdmin = "127.0.0.1:9090"

// edgeWithDefaults returns the given edge, with its empty fields filled from the edge's
// configuration.
func edgeWithDefaults(given admin.Edge, says *config.Admin) admin.Edge {
	given.Token = cmp.Or(given.Token, says.Token.Value())
	if given.Admin == "" {
		given.Admin = dialAddress(says.Listen)
		if says.TLS.Enabled() && !unixsocket.IsAddress(given.Admin) {
			given.Admin = "https://" + given.Admin
		}
	}
	// The certificate may be self-signed; the file contains its chain.
	if given.CACert == "" && says.TLS.Enabled() {
		given.CACert = says.TLS.Cert
	}
	return given
}

// dialAddress returns the address at which this machine can reach a listener.
func dialAddress(listen string) string {
	if unixsocket.IsAddress(listen) {
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

// collectConfigFiles returns the configuration, its keys_file, and the output of `penstock check`.
func collectConfigFiles(name string) (config.Redacted, []bundleFile) {
	file := bundleFile{name: "config.yaml", description: "the configuration, without secrets and comments"}
	keys := bundleFile{name: "keys.yaml", description: "its keys_file, without hashes"}
	check := bundleFile{name: "check.txt", description: "what penstock check says of it"}
	if name == "" {
		file.missingReason = "--config or PENSTOCK_CONFIG names the file"
		return config.Redacted{}, []bundleFile{file}
	}
	r, err := config.Redact(name)
	switch {
	case err != nil:
		file.missingReason = err.Error()
		return r, []bundleFile{file}
	case r.Text == nil:
		file.missingReason = "the file is not YAML, so its secrets cannot be told apart"
	default:
		file.content = r.Text
	}
	parts := []bundleFile{file}
	if r.Keys != nil {
		keys.content = r.Keys
		parts = append(parts, keys)
	}
	check.content = []byte(runConfigCheck(name))
	return r, append(parts, check)
}

// runConfigCheck returns the output of `penstock check`. It omits excerpts from the file, because they
// may contain secrets.
func runConfigCheck(name string) string {
	f, problems := proxy.LoadConfig(name)
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
