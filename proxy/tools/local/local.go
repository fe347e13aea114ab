// Package local implements starting without a configuration file. It finds engines, makes a key,
// and either serves the engines or writes a configuration for them. engine.WriteConfig writes the
// configuration, which is then parsed like a file. In all other respects, the edge starts as it
// does with a file.
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

// NamedEngines are the engines named by the user. If URLs is empty, the usual ports on this machine
// are scanned.
type NamedEngines struct {
	URLs   []string
	APIKey string // key for all engines; written as ${ENGINE_API_KEY}
}

// ServeEngines serves engines until a shutdown is started through end. If no engine is named or
// found, it serves the engine at the URL returned by simulator. It prints a description of what it
// serves to out.
func ServeEngines(
	end *proxy.ShutdownSignals, out io.Writer, named NamedEngines, at ListenOptions, simulator func() (url string, stop func(), err error),
) error {
	end.HandleHangup()
	public, admin, err := at.listenAddresses()
	if err != nil {
		return err
	}
	engines, err := named.detectAll(end.Context, out)
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
		if engines, err = (NamedEngines{URLs: []string{url}}).detectAll(end.Context, out); err != nil {
			return err
		}
	}
	key, err := at.loadOrCreateKey()
	if err != nil {
		return err
	}
	head := fmt.Sprintf(serveConfigHead, public, admin, adminTokenLine(at.AdminToken))
	text, err := renderConfig(head+fmt.Sprintf(serveConfigKeys, key.hash), engines)
	if err != nil {
		return err
	}
	f, problems := config.ParseValid("(no configuration)", text, engine.KnownEngines())
	if f == nil {
		return problems
	}
	return proxy.Run(end, proxy.RunOptions{
		Config: f, Origin: describeStart(f),
		NextPort: at.Listen == "", NextAdminPort: at.AdminListen == "", SharePort: at.SharePort,
		Ready: func(public, admin string) { fmt.Fprint(out, welcomeText(f, public, admin, key)) },
	})
}

// describeStart returns the first line in the log, which states that no configuration file is used,
// and what is served.
func describeStart(f *config.File) string {
	var engines []string
	for i := range f.Upstreams {
		engines = append(engines, f.Upstreams[i].URL)
	}
	return "no configuration, because neither --config nor PENSTOCK_CONFIG names a file: serving " + pluralize(len(f.Models), "model") +
		" of " + strings.Join(engines, ", ") + ", for one key"
}

// serveConfigHead and serveConfigKeys are the parts of the configuration before the engines and
// models.
const serveConfigHead = `log: { format: console }
timeouts: { linger: 0s }
listen: %q
admin: { listen: %q%s }
`

const serveConfigKeys = `keys:
  - { id: local, hash: %q }
`

func adminTokenLine(token string) string {
	if token == "" {
		return ""
	}
	return `, token: "${PENSTOCK_ADMIN_TOKEN}"`
}

func renderConfig(head string, engines []engine.Detection) ([]byte, error) {
	b := bytes.NewBufferString(head)
	err := engine.WriteConfig(b, engines)
	return b.Bytes(), err
}

// detectAll is like detectEngines, but returns an error if a named engine is missing.
func (e NamedEngines) detectAll(ctx context.Context, out io.Writer) ([]engine.Detection, error) {
	engines, missing, err := e.detectEngines(ctx, out)
	return engines, errors.Join(append(missing, err)...)
}

// detectEngines detects the named engines. If no engines are named, it scans the usual ports on
// this machine, and prints the engines that it omits to out. missing explains why named engines
// were omitted: they do not respond, or have no model that a client could request.
func (e NamedEngines) detectEngines(ctx context.Context, out io.Writer) (engines []engine.Detection, missing []error, err error) {
	profiles, err := engine.LoadProfiles(nil)
	if err != nil {
		return nil, nil, err
	}
	if len(e.URLs) == 0 {
		return scanUsualPorts(ctx, out, profiles), nil, nil
	}
	for _, url := range e.URLs {
		found, err := engine.Detect(ctx, url, e.APIKey, profiles)
		switch {
		case err != nil:
			missing = append(missing, fmt.Errorf("no engine answers: %w", err))
		case found.IsIn(engines): // the engine was named twice
		case len(found.UsableModels()) == 0:
			missing = append(missing, errors.New(omissionReason(&found)))
		default:
			engines = append(engines, found)
		}
	}
	return engines, missing, nil
}

// scanUsualPorts scans the usual ports. It omits engines that have no model that a client could
// request.
func scanUsualPorts(ctx context.Context, out io.Writer, profiles *engine.Profiles) (engines []engine.Detection) {
	for _, found := range engine.Discover(ctx, profiles.UsualAddresses(), profiles) {
		switch {
		case found.Engine == engine.PenstockProfile:
			fmt.Fprintf(out, "%s is another Penstock, not an engine, so it is left out.\n", found.URL)
		case len(found.UsableModels()) == 0:
			fmt.Fprintln(out, "Left out:", omissionReason(&found))
		default:
			engines = append(engines, found)
		}
	}
	return engines
}

func omissionReason(d *engine.Detection) string {
	if d.Refused != 0 {
		return fmt.Sprintf("%s (%s) needs a key: give its URL, and its key in ENGINE_API_KEY", d.URL, d.Engine)
	}
	return fmt.Sprintf("%s (%s) lists no model: name its model in a configuration, which penstock doctor %s begins", d.URL, d.Engine, d.URL)
}
