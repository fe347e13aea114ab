// Package local is the start without a configuration: it finds the engines of this machine, makes a
// key for the run, serves what was found, and prints how to call it. The configuration is written
// by config.Local and read like a file, so that such a start takes no other path than any.
package local

import (
	"context"
	"fmt"
	"io"

	"penstock/config"
	"penstock/proxy"
	"penstock/proxy/auth"
	"penstock/upstreams/engine"
)

// Serve serves the engines of this machine for a new key, until end. If there is none, it serves
// the one that simulator starts. It writes to out what it serves.
func Serve(end *proxy.Shutdown, out io.Writer, simulator func() (config.LocalEngine, func(), error)) error {
	end.AlsoHangup()
	engines, err := find(end.Context, out)
	if err != nil {
		return err
	}
	if len(engines) == 0 {
		simulated, stop, err := simulator()
		if err != nil {
			return err
		}
		defer stop()
		fmt.Fprintln(out,
			"No engine was found on the usual ports of this machine, so the bundled simulator was started.")
		engines = append(engines, simulated)
	}
	key, hash, err := auth.NewKey()
	if err != nil {
		return err
	}
	f, problems := config.ParseValid("(no configuration)", config.Local(engines, hash), engine.Known())
	if f == nil {
		return problems
	}
	return proxy.Run(end, proxy.RunOptions{Config: f, NextPort: true, Ready: func(public, admin string) {
		fmt.Fprint(out, welcome(f, public, admin, key))
	}})
}

// find looks for engines on the usual ports of this machine. It leaves out engines that list no
// model, because clients could not name one.
func find(ctx context.Context, out io.Writer) (engines []config.LocalEngine, err error) {
	profiles, err := engine.LoadProfiles(nil)
	if err != nil {
		return nil, err
	}
	for _, found := range engine.Discover(ctx, profiles.UsualAddresses(), profiles) {
		if found.Engine == engine.Penstock {
			fmt.Fprintf(out, "%s is another Penstock and no engine, so it is left out.\n", found.URL)
			continue
		}
		if len(found.Models) == 0 {
			fmt.Fprintf(out,
				"%s (%s) lists no model, so it is left out: name its model in a configuration, which penstock doctor %s begins.\n", found.URL, found.Engine, found.URL)
			continue
		}
		e := config.LocalEngine{URL: found.URL, Engine: found.Engine}
		for _, m := range found.Models {
			e.Models = append(e.Models, config.LocalModel{ID: m.ID, Kind: m.Kind})
		}
		engines = append(engines, e)
	}
	return engines, nil
}
