// Package filewatch reports when the content of files changed.
//
// Only the content of files counts. Directory events may be too frequent or too early, and bind
// mounts and network file systems may send none. A periodic hash is always right. Events only
// trigger an earlier check. A file that only a refused configuration names is not watched, so touch
// the configuration once the file exists.
package filewatch

import (
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"os"
	"time"
)

// Watcher calls OnChange when the content of files changed. It compares hashes of their content at
// every Interval. Directory events only trigger an earlier check. So it works with editors that
// rename, with swapped symlinks (Kubernetes swaps ..data), with bind mounts, and on systems without
// events.
//
// It reports a change once the content has been the same for 200 ms, so that a half-written file is
// not read. A file that was added to the list since the last check counts as changed.
type Watcher struct {
	// Paths returns the files to watch. The Watcher calls it at every check, so the list may
	// change. Directories and devices are not read.
	Paths func() []string
	// Interval is the time between two checks when no event comes. Default: 10 s.
	Interval time.Duration
	// OnChange is called from Run's goroutine. No check runs until it returns.
	OnChange func()

	seen prints
}

const (
	watchInterval = 10 * time.Second
	settleTime    = 200 * time.Millisecond
	// missingTime is how long a file must be missing to count as removed. An editor may move the
	// old file away before it writes the new one.
	missingTime = 2 * time.Second
)

// Prime does the first check. Run compares later checks with it. Call Prime before the first read
// of the files, because otherwise Run misses a change between that read and its own start. If Prime
// was not called, Run does the first check itself. Do not call Prime after Run.
func (w *Watcher) Prime() { w.seen = w.look() }

// Run watches until ctx ends. It starts no goroutines that outlive the call.
func (w *Watcher) Run(ctx context.Context) {
	if w.seen == nil {
		w.Prime()
	}
	dirs := newDirWatch()
	defer dirs.close()
	w.loop(ctx, dirs)
}

// loop waits for a reason to check. It reports a change after two checks, a settle time apart, that
// agree with each other and differ from the last reported state. While a file is missing, it
// reports after missingTime. Every check starts a settle time. Events in this time only lead to the
// check at its end, so a busy directory costs at most one check per settle time.
func (w *Watcher) loop(ctx context.Context, dirs *dirWatch) {
	interval := w.Interval
	if interval <= 0 {
		interval = watchInterval
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	settle := time.NewTimer(settleTime)
	defer settle.Stop()
	settling, missed := true, true // the first check follows directly once the directories are watched
	dirs.follow(w.Paths())
	var candidate prints
	equal := 0 // consecutive checks with the candidate's result
	for {
		select {
		case <-ctx.Done():
			return
		case <-dirs.events():
			if settling {
				missed = true
				continue
			}
		case <-dirs.errors(): //nolint:errcheck // an overflow or a lost directory
			if settling {
				missed = true
				continue
			}
		case <-tick.C:
			if settling {
				continue
			}
		case <-settle.C:
			settling = false
			if candidate == nil && !missed {
				continue
			}
		}
		missed = false
		dirs.follow(w.Paths())
		now := w.look()
		switch {
		case !now.differs(w.seen):
			w.seen, candidate = now, nil
		case candidate == nil || !maps.Equal(now, candidate):
			candidate, equal = now, 0
		default:
			if equal++; !now.lacks(w.seen) || time.Duration(equal)*settleTime >= missingTime {
				w.seen, candidate = now, nil
				w.OnChange()
			}
		}
		settling = true
		settle.Reset(settleTime)
	}
}

// prints holds the fingerprint of each path.
type prints map[string]print

// print is the SHA-256 of a file's content, or a value with one byte set if there is no content.
type print [sha256.Size]byte

func (w *Watcher) look() prints {
	out := prints{}
	for _, p := range w.Paths() {
		out[p] = fingerprint(p)
	}
	return out
}

// differs reports whether a path in p is new or its content has changed since old. A path that is
// only in old is not a change.
func (p prints) differs(old prints) bool {
	for path, content := range p {
		if before, ok := old[path]; !ok || before != content {
			return true
		}
	}
	return false
}

// missing is the print of a path without a file.
var missing = print{0: 1}

// lacks reports whether a file is missing that existed in old.
func (p prints) lacks(old prints) bool {
	for path, content := range p {
		if before, ok := old[path]; ok && before != missing && content == missing {
			return true
		}
	}
	return false
}

// fingerprint returns the hash of a regular file's content. If there is no content, it returns a
// value that encodes the reason.
func fingerprint(path string) (sum print) {
	info, err := os.Stat(path)
	if err != nil {
		return missing
	}
	if !info.Mode().IsRegular() {
		return print{0: 2} // reading a pipe would block, or take data from another reader
	}
	f, err := os.Open(path)
	if err != nil {
		return print{0: 3}
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return print{0: 4}
	}
	return print(h.Sum(nil))
}
