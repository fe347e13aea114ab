// Package local is what somebody without a configuration begins with: it finds engines, makes a
// key, and serves what was found or writes it to a file. The configuration is written by
// engine.WriteConfig and read like any file, so that such a start takes no other path than any.
package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"penstock/config"
	"penstock/proxy"
	"penstock/upstreams/engine"
)

// Engines are those that somebody names. Without URLs they are looked for on the usual ports of
// this machine.
type Engines struct {
	URLs   []string
	APIKey string // of all of them; in a configuration ${ENGINE_API_KEY} stands for it
}

// Serve serves engines at a place, until end. If none is named and none is found, it serves the one
// that simulator starts and whose URL it returns. It writes to out what it serves.
func Serve(
	end *proxy.Shutdown, out io.Writer, named Engines, at Place, simulator func() (url string, stop func(), err error),
) error {
	end.AlsoHangup()
	public, admin, err := at.addresses()
	if err != nil {
		return err
	}
	engines, err := named.find(end.Context, out)
	if err != nil {
		return err
	}
	if len(engines) == 0 {
		url, stop, err := simulator()
		if err != nil {
			return err
		}
		defer stop()
		fmt.Fprintln(out,
			"No engine was found on the usual ports of this machine, so the bundled simulator was started.")
		if engines, err = (Engines{URLs: []string{url}}).find(end.Context, out); err != nil {
			return err
		}
	}
	key, err := at.key()
	if err != nil {
		return err
	}
	head := fmt.Sprintf(serveHead, public, admin, tokenLine(at.AdminToken))
	text, err := configuration(head+serveKeys, key.hash, engines)
	if err != nil {
		return err
	}
	f, problems := config.ParseValid("(no configuration)", text, engine.Known())
	if f == nil {
		return problems
	}
	return proxy.Run(end, proxy.RunOptions{
		Config: f, NextPort: at.Listen == "", NextAdminPort: at.AdminListen == "", SharePort: at.SharePort,
		Ready: func(public, admin string) { fmt.Fprint(out, welcome(f, public, admin, key)) },
	})
}

// serveHead and serveKeys are what a start without a configuration has above the engines and
// models.
const serveHead = `log: { format: console }
timeouts: { linger: 0s }
listen: %q
admin: { listen: %q%s }
`

const serveKeys = `keys:
  - { id: local, hash: %q }
`

// tokenLine has the admin listener ask for the token, if there is one.
func tokenLine(token string) string {
	if token == "" {
		return ""
	}
	return `, token: "${PENSTOCK_ADMIN_TOKEN}"`
}

// configuration is the text of a configuration: a head, in which the hash of its key is filled in,
// and the engines.
func configuration(head, hash string, engines []engine.Detection) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, head, hash)
	err := engine.WriteConfig(&b, engines)
	return b.Bytes(), err
}

// find asks the named engines what they are, or looks for others on the usual ports of this
// machine, where it writes to out which ones it leaves out. A named one that does not answer, or
// has no model that a client could name, is an error.
func (e Engines) find(ctx context.Context, out io.Writer) ([]engine.Detection, error) {
	profiles, err := engine.LoadProfiles(nil)
	if err != nil {
		return nil, err
	}
	if len(e.URLs) == 0 {
		return usual(ctx, out, profiles), nil
	}
	var engines []engine.Detection
	var problems []error
	for _, url := range e.URLs {
		found, err := engine.Detect(ctx, url, e.APIKey, profiles)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("no engine answers: %w", err))
		case found.Among(engines): // it was named twice
		case len(found.Served()) == 0:
			problems = append(problems, errors.New(unserved(&found)))
		default:
			engines = append(engines, found)
		}
	}
	return engines, errors.Join(problems...)
}

// usual looks at the usual ports. It leaves out engines whose models clients could not name.
func usual(ctx context.Context, out io.Writer, profiles *engine.Profiles) (engines []engine.Detection) {
	for _, found := range engine.Discover(ctx, profiles.UsualAddresses(), profiles) {
		switch {
		case found.Engine == engine.Penstock:
			fmt.Fprintf(out, "%s is another Penstock and no engine, so it is left out.\n", found.URL)
		case len(found.Served()) == 0:
			fmt.Fprintln(out, "Left out:", unserved(&found))
		default:
			engines = append(engines, found)
		}
	}
	return engines
}

// unserved says why an engine cannot be served as it is.
func unserved(d *engine.Detection) string {
	if d.Refused != 0 {
		return fmt.Sprintf("%s (%s) wants a key: name it with its URL, and its key in ENGINE_API_KEY", d.URL, d.Engine)
	}
	return fmt.Sprintf("%s (%s) lists no model: name its model in a configuration, which penstock doctor %s begins", d.URL, d.Engine, d.URL)
}
