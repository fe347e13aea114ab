package config

import (
	"io/fs"
	"os"
	"path/filepath"

	"penstock/config/unixsocket"
)

// CheckSockets reports Unix sockets that the edge could not open or reach because of the files at
// their paths. Call it before a start, like CheckCertificates. A problem with the socket of an
// engine or a hook is only a warning, because the socket may appear later.
func (f *File) CheckSockets() Problems {
	c := f.newChecks().check
	for _, l := range []struct{ at, listen string }{
		{"listen", f.Listen}, {"admin.listen", f.Admin.Listen}, {"tls.acme.http", f.TLS.ACME.HTTP},
	} {
		if unixsocket.IsAddress(l.listen) {
			if file, _, err := unixsocket.ParseListen(l.listen); err == nil {
				c.checkSocketPath(l.at, file, c.fail)
			}
		}
	}
	for i := range f.Upstreams {
		c.warnServerSocket(entryPath("upstreams", i)+".url", f.Upstreams[i].URL)
	}
	for i := range f.Hooks {
		c.warnServerSocket(entryPath("hooks", i)+".before", f.Hooks[i].Before)
	}
	return c.Problems()
}

// warnServerSocket warns about the socket of a server, if the server has one.
func (c *checker) warnServerSocket(at, url string) {
	if !unixsocket.IsAddress(url) {
		return
	}
	if file, _, err := unixsocket.ParseURL(url); err == nil {
		c.checkSocketPath(at, file, c.warn)
	}
}

// checkSocketPath reports a problem if the path of a Unix socket cannot be used.
func (c *checker) checkSocketPath(at, file string, report func(at, format string, of ...any)) {
	folder := filepath.Dir(file)
	if in, err := os.Stat(folder); err != nil || !in.IsDir() {
		report(at, "there is no folder %s for the Unix socket: create it (systemd: RuntimeDirectory=), or mount it", folder)
		return
	}
	if is, err := os.Lstat(file); err == nil && is.Mode().Type() != fs.ModeSocket {
		report(at, "%s exists and is not a socket: choose another path, or remove it", file)
	}
}
