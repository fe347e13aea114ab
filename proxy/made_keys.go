package proxy

import (
	"context"

	"penstock/proxy/access/runkeys"
	"penstock/proxy/telemetry/guard"
)

// openMadeKeys opens the file with keys created at run time. It returns nil if the configuration
// names no file. The keys are valid from the first snapshot on.
func openMadeKeys(e *Edge) (*runkeys.File, error) {
	path := e.opts.Config.Admin.Keys.File
	if path == "" {
		return nil, nil
	}
	return runkeys.Open(runkeys.FileOptions{Path: path, Use: e.reloads.UseShared, Log: e.log})
}

// keysAtRunTime returns the store for keys that operators create, or nil if no store is configured.
func keysAtRunTime(e *Edge) runkeys.Store {
	switch {
	case e.made != nil:
		return e.made
	case e.shared != nil:
		return e.shared
	}
	return nil
}

// followMadeKeys follows the file until leave is called. After that, another edge may write the
// file.
func followMadeKeys(e *Edge) (leave func()) {
	if e.made == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go e.guard.Once(guard.Files, func() {
		defer close(ended)
		e.guard.Loop(ctx.Done(), guard.Files, func() { e.made.Run(ctx) })
	})
	return func() {
		cancel()
		<-ended
		e.made.Close()
	}
}
