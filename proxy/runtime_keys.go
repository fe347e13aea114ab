package proxy

import (
	"context"

	"penstock/proxy/access/runkeys"
	"penstock/proxy/telemetry/guard"
)

// openRuntimeKeys opens the file with keys created at run time. It returns nil if the configuration
// names no file. The keys are valid from the first snapshot on.
func openRuntimeKeys(e *Edge) (*runkeys.KeyFile, error) {
	path := e.opts.Config.Admin.Keys.File
	if path == "" {
		return nil, nil
	}
	return runkeys.OpenFile(runkeys.FileOptions{Path: path, Use: e.reloads.UseSharedKeys, Log: e.log})
}

// runtimeKeyStore returns the store for keys that operators create, or nil if no store is
// configured.
func runtimeKeyStore(e *Edge) runkeys.KeyStore {
	switch {
	case e.runtimeKeys != nil:
		return e.runtimeKeys
	case e.storeKeys != nil:
		return e.storeKeys
	}
	return nil
}

// followRuntimeKeys follows the file until leave is called. After leave has returned, another edge
// may write the file.
func followRuntimeKeys(e *Edge) (leave func()) {
	if e.runtimeKeys == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go e.guard.RunWithRecover(guard.PlaceFiles, func() {
		defer close(ended)
		e.guard.Loop(ctx.Done(), guard.PlaceFiles, func() { e.runtimeKeys.Run(ctx) })
	})
	return func() {
		cancel()
		<-ended
		e.runtimeKeys.Close()
	}
}
