// Package local implements the start without a configuration: it finds engines, makes a key, and
// serves the engines or writes a configuration for them. engine.WriteConfig writes the
// configuration, which is then read like a file. Thus such a start uses the same code path as any
// other start.
package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"penstock/config"
	"penstock/proxy"
	"penstock/upstreams/engine"
)

// Engines are the engines that the user names. If there are no URLs, engines are searched for on
// the usual ports of this machine.
type Engines struct {
	URLs   []string
	APIKey string // one key for all engines; written as ${ENGINE_API_KEY}
}

// Serve serves engines at a place until end. If no engine is named or found, it serves the engine
// that simulator starts. simulator returns the engine's URL. Serve writes a description of what it
// serves to out.
func Serve(
	end *proxy.Shutdown, out io.Writer, named Engines, at Place, simulator func() (url string, stop func(), err error),
) error {
	end.AlsoHangup()
	public, admin, err := at.addresses()
	if err != nil {
		return err
	}
	engines, err := named.findAll(end.Context, out)
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
		if engines, err = (Engines{URLs: []string{url}}).findAll(end.Context, out); err != nil {
			return err
		}
	}
	key, err := at.key()
	if err != nil {
		return err
	}
	head := fmt.Sprintf(serveHead, public, admin, tokenLine(at.AdminToken))
	text, err := configuration(head+fmt.Sprintf(serveKeys, key.hash), engines)
	if err != nil {
		return err
	}
	f, problems := config.ParseValid("(no configuration)", text, engine.Known())
	if f == nil {
		return problems
	}
	return proxy.Run(end, proxy.RunOptions{
		Config: f, Origin: origin(f),
		NextPort: at.Listen == "", NextAdminPort: at.AdminListen == "", SharePort: at.SharePort,
		Ready: func(public, admin string) { fmt.Fprint(out, welcome(f, public, admin, key)) },
	})
}

// origin returns the first line of the log. It tells why there is no file, and what is served.
func origin(f *config.File) string {
	var engines []string
	for i := range f.Upstreams {
		engines = append(engines, f.Upstreams[i].URL)
	}
	return "no configuration, because neither --config nor PENSTOCK_CONFIG names a file: serving " + counted(len(f.Models), "model") +
		" of " + strings.Join(engines, ", ") + ", for one key"
}

// serveHead and serveKeys are the head of the configuration for a start without a file, above the
// engines and models.
const serveHead = `log: { format: console }
timeouts: { linger: 0s }
listen: %q
admin: { listen: %q%s }
`

const serveKeys = `keys:
  - { id: local, hash: %q }
`

// tokenLine returns the setting that makes the admin listener require the token, if there is one.
func tokenLine(token string) string {
	if token == "" {
		return ""
	}
	return `, token: "${PENSTOCK_ADMIN_TOKEN}"`
}

// configuration returns the text of a configuration: the head, followed by the engines.
func configuration(head string, engines []engine.Detection) ([]byte, error) {
	b := bytes.NewBufferString(head)
	err := engine.WriteConfig(b, engines)
	return b.Bytes(), err
}

// findAll is like find, but fails if a named engine does not answer.
func (e Engines) findAll(ctx context.Context, out io.Writer) ([]engine.Detection, error) {
	engines, missing, err := e.find(ctx, out)
	return engines, errors.Join(append(missing, err)...)
}

// find detects the named engines. If none is named, it searches the usual ports of this machine,
// and reports to out which engines it omits. missing tells why named engines are omitted: they do
// not answer, or have no model that a client could name.
func (e Engines) find(ctx context.Context, out io.Writer) (engines []engine.Detection, missing []error, err error) {
	profiles, err := engine.LoadProfiles(nil)
	if err != nil {
		return nil, nil, err
	}
	if len(e.URLs) == 0 {
		return usual(ctx, out, profiles), nil, nil
	}
	for _, url := range e.URLs {
		found, err := engine.Detect(ctx, url, e.APIKey, profiles)
		switch {
		case err != nil:
			missing = append(missing, fmt.Errorf("no engine answers: %w", err))
		case found.Among(engines): // the engine was named twice
		case len(found.Served()) == 0:
			missing = append(missing, errors.New(unserved(&found)))
		default:
			engines = append(engines, found)
		}
	}
	return engines, missing, nil
}

// usual checks the usual ports. It omits engines with models that clients could not name.
func usual(ctx context.Context, out io.Writer, profiles *engine.Profiles) (engines []engine.Detection) {
	for _, found := range engine.Discover(ctx, profiles.UsualAddresses(), profiles) {
		switch {
		case found.Engine == engine.Penstock:
			fmt.Fprintf(out, "%s is another Penstock, not an engine, so it is left out.\n", found.URL)
		case len(found.Served()) == 0:
			fmt.Fprintln(out, "Left out:", unserved(&found))
		default:
			engines = append(engines, found)
		}
	}
	return engines
}

// unserved returns the reason why an engine cannot be served, or "".
func unserved(d *engine.Detection) string {
	if d.Refused != 0 {
		return fmt.Sprintf("%s (%s) needs a key: give its URL, and its key in ENGINE_API_KEY", d.URL, d.Engine)
	}
	return fmt.Sprintf("%s (%s) lists no model: name its model in a configuration, which penstock doctor %s begins", d.URL, d.Engine, d.URL)
}
