// Package filewatch reports when the contents of files change.
//
// It compares hashes periodically. Directory events may be too frequent or too early, and bind
// mounts and network file systems may not send any. An event therefore only causes an earlier
// check.
package filewatch

import (
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"os"
	"time"
)

// Watcher calls OnChange when the contents of files have changed. It compares hashes of the
// contents once per Interval. Directory events only cause an earlier check. This also works with
// editors that rename files, with swapped symlinks (Kubernetes swaps ..data), with bind mounts, and
// on systems without events.
//
// It reports a change once the contents have been stable for 200 ms, so that it does not report
// half-written files. A new path in the list counts as a change if the file exists.
type Watcher struct {
	// Paths returns the files to watch. The Watcher calls it for every check, so the list may
	// change. The Watcher does not read directories and devices.
	Paths func() []string
	// Interval is the time between two checks without events. The default is 10 s.
	Interval time.Duration
	// OnChange is called on Run's goroutine. No check runs until it returns.
	OnChange func()

	lastHashes contentHashes
}

const (
	watchInterval = 10 * time.Second
	settleTime    = 200 * time.Millisecond
	// removalDelay is how long a file must be missing to count as removed. An editor may move the
	// old file away before it writes the new one.
	removalDelay = 2 * time.Second
	// maxHashedBytes is more than any file of a valid configuration has.
	maxHashedBytes = 16 << 20
)

// RecordHashes does the first check, to which Run compares later checks. Call RecordHashes before
// the files are first read. Otherwise, Run does the first check, and misses changes between that
// read and the start of Run.
func (w *Watcher) RecordHashes() { w.lastHashes = w.hashFiles() }

// Run watches until ctx is done. Its goroutines exit before it returns.
func (w *Watcher) Run(ctx context.Context) {
	if w.lastHashes == nil {
		w.RecordHashes()
	}
	dirs := newDirWatch()
	defer dirs.close()
	w.loop(ctx, dirs)
}

// loop waits for events and intervals, and checks the files. It reports a change if two checks,
// settleTime apart, agree with each other and differ from the last reported state. If a file is
// missing, it reports the change after removalDelay. Events within settleTime after a check cause
// only one more check, at the end of that time. A busy directory therefore causes at most one check
// per settleTime.
func (w *Watcher) loop(ctx context.Context, dirs *dirWatch) {
	interval := w.Interval
	if interval <= 0 {
		interval = watchInterval
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	settle := time.NewTimer(settleTime)
	defer settle.Stop()
	settling, missed := true, true // causes a check as soon as the directories are watched
	dirs.watchDirs(w.Paths())
	var candidate contentHashes
	equal := 0 // number of consecutive checks with the same result as candidate
	for {
		select {
		case <-ctx.Done():
			return
		case <-dirs.eventChan():
			if settling {
				missed = true
				continue
			}
		case <-dirs.errorChan(): //nolint:errcheck // an overflow or a lost directory
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
		dirs.watchDirs(w.Paths())
		now := w.hashFiles()
		switch {
		case !now.hasChangedSince(w.lastHashes):
			w.lastHashes, candidate = now, nil
		case candidate == nil || !maps.Equal(now, candidate):
			candidate, equal = now, 0
		default:
			if equal++; !now.isMissingAny(w.lastHashes) || time.Duration(equal)*settleTime >= removalDelay {
				w.lastHashes, candidate = now, nil
				w.OnChange()
			}
		}
		settling = true
		settle.Reset(settleTime)
	}
}

// contentHashes maps paths to fingerprints.
type contentHashes map[string]contentHash

// contentHash is the SHA-256 of a file's contents. If the contents cannot be read, it has a single
// non-zero byte.
type contentHash [sha256.Size]byte

func (w *Watcher) hashFiles() contentHashes {
	out := contentHashes{}
	for _, p := range w.Paths() {
		out[p] = hashFile(p)
	}
	return out
}

// hasChangedSince reports whether contents in p differ from old. A path that is only in p counts as
// missing before, and paths that are only in old are ignored.
func (p contentHashes) hasChangedSince(old contentHashes) bool {
	for path, content := range p {
		before, ok := old[path]
		if !ok {
			before = missingHash
		}
		if before != content {
			return true
		}
	}
	return false
}

var missingHash = contentHash{0: 1}

// isMissingAny reports whether a file in old is now missing.
func (p contentHashes) isMissingAny(old contentHashes) bool {
	for path, content := range p {
		if before, ok := old[path]; ok && before != missingHash && content == missingHash {
			return true
		}
	}
	return false
}

// hashFile returns the hash of a regular file's contents. If the contents cannot be read, it
// returns a value that depends on the reason.
func hashFile(path string) (sum contentHash) {
	info, err := os.Stat(path)
	if err != nil {
		return missingHash
	}
	if !info.Mode().IsRegular() {
		return contentHash{0: 2} // reading a pipe would block, or steal data from another reader
	}
	f, err := os.Open(path)
	if err != nil {
		return contentHash{0: 3}
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxHashedBytes)); err != nil {
		return contentHash{0: 4}
	}
	return contentHash(h.Sum(nil))
}
