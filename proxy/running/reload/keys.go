package reload

import (
	"errors"

	"penstock/config"
	"penstock/proxy/running/snapshot"
)

// loadedConfig is a valid file whose keys have been applied.
type loadedConfig struct {
	*config.File
	keys            snapshot.Credentials
	runningSnapshot *snapshot.Snapshot      // the running snapshot when the file was read
	changes         []config.ChangedSetting // differences between runningSnapshot and the file
}

// errSuperseded means that the files changed again before this reload could apply them.
var errSuperseded = errors.New("the files have changed again meanwhile")

// loadFileAndApplyKeys reads the file. If the file is valid, loadFileAndApplyKeys applies the keys
// in it, even if the other settings are rejected later. It does not wait for other reloads. If it
// returns nil or adds a problem to res, nothing has changed.
func (r *Reloader) loadFileAndApplyKeys(q Request, res *Result) (*loadedConfig, error) {
	r.readMu.Lock()
	defer r.readMu.Unlock()
	if q.onRead != nil {
		q.onRead()
	}
	if r.opts.Load == nil {
		return nil, errors.New("this edge was started without a configuration file")
	}
	read := func() (*config.File, config.Problems) { return r.loadConfig(&q) }
	if q.Back {
		read = func() (*config.File, config.Problems) { return r.versions.previousConfig(r.RunningSnapshot().Config) }
	}
	next, problems := read()
	if next == nil {
		for _, p := range problems.Errors() {
			res.Problems = append(res.Problems, p.String())
		}
		return nil, nil
	}
	for _, p := range problems.Warnings() {
		res.Warnings = append(res.Warnings, p.String())
	}
	f := &loadedConfig{File: next, runningSnapshot: r.current.Load()}
	for _, c := range config.Diff(f.runningSnapshot.Config, next) {
		if c.RestartOnly {
			res.Restart = append(res.Restart, c.String())
		} else {
			f.changes = append(f.changes, c)
			res.KeysInForce = res.KeysInForce || c.IsAccessChange()
		}
	}
	next.KeepRestartOnly(f.runningSnapshot.Config)
	if exposed := next.CheckAlreadyOpenPorts(r.opts.Public, r.opts.Admin).Err(); exposed != nil {
		res.KeysInForce = false
		return nil, exposed
	}
	var err error
	if f.keys, err = snapshot.NewCredentials(next, r.shared.Load(), r.opts.Keys); err != nil {
		res.KeysInForce = false
		return nil, err
	}
	if q.DryRun {
		return f, nil
	}
	if r.newest == nil || !r.newest.Same(next) {
		r.newest = next
		r.filesRead.Add(1)
	}
	f.keys.FileNumber = r.filesRead.Load()
	if res.KeysInForce {
		r.swapSnapshot(func(running *snapshot.Snapshot) *snapshot.Snapshot {
			ahead, bad := f.keys.ForRunningModels(running, next, r.shared.Load(), r.opts.Keys)
			if bad != nil { // cannot happen, because NewCredentials has already built the same ring
				err = bad
				return running
			}
			return running.WithCredentials(ahead, next)
		})
		if next.OnRevoke == config.OnRevokeAbort {
			r.opts.OnRevoke(f.keys.Keys)
		}
	}
	// An earlier reload may already have applied the keys.
	res.KeysInForce = res.KeysInForce || r.current.Load().Ahead
	return f, err
}

func (r *Reloader) loadConfig(q *Request) (*config.File, config.Problems) {
	if q.Candidate != nil && r.opts.Parse != nil {
		return r.opts.Parse(q.Candidate, q.Called)
	}
	f, problems, named := r.opts.Load()
	r.namedFiles.Store(&named)
	return f, problems
}

// UseSharedKeys applies the keys in the fleet's store, in addition to the keys in the file. The
// given keys replace the keys that were in the store before. UseSharedKeys does not wait for files
// or models. Only one goroutine may call it.
func (r *Reloader) UseSharedKeys(keys []config.Key) {
	r.shared.Store(&snapshot.StoreKeys{Keys: keys, Number: r.shared.Load().Number + 1})
	if r.RunningSnapshot() == nil { // Start will apply the keys
		return
	}
	r.swapSnapshot(func(running *snapshot.Snapshot) *snapshot.Snapshot { return running })
	r.AbortRevokedCalls()
}

// AbortRevokedCalls cancels calls whose key or token is no longer valid, provided that on_revoke is
// abort.
func (r *Reloader) AbortRevokedCalls() {
	if s := r.RunningSnapshot(); s.Config.OnRevoke == config.OnRevokeAbort {
		r.opts.OnRevoke(s.Keys)
	}
	r.opts.OnKeys()
}
