package filewatch

import (
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// dirWatch delivers events for the directories that contain the watched files and the targets of
// symlinks. It watches directories, because a watch on a file is lost when the file is replaced. If
// the system does not support watches, dirWatch delivers no events.
type dirWatch struct {
	notify *fsnotify.Watcher // nil if no watcher could be created
	dirs   map[string]bool
}

func newDirWatch() *dirWatch {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		// probably no inotify instance is free; periodic checks still work
		n = nil
	}
	return &dirWatch{notify: n, dirs: map[string]bool{}}
}

// watchDirs watches the directories of paths, and no others. Each call retries directories that
// were missing before.
func (d *dirWatch) watchDirs(paths []string) {
	if d.notify == nil {
		return
	}
	wanted := map[string]bool{}
	for _, p := range paths {
		wanted[filepath.Dir(p)] = true
		if to, err := filepath.EvalSymlinks(p); err == nil {
			wanted[filepath.Dir(to)] = true
		}
	}
	for dir := range d.dirs {
		if !wanted[dir] {
			_ = d.notify.Remove(dir) // fails if the directory is gone, which also ends its watch
			delete(d.dirs, dir)
		}
	}
	watched := map[string]bool{}
	for _, dir := range d.notify.WatchList() {
		watched[dir] = true
	}
	for dir := range wanted {
		if !watched[dir] && d.notify.Add(dir) != nil {
			continue
		}
		d.dirs[dir] = true
	}
}

// eventChan returns the channel of events. If the system does not support watches, it returns nil,
// which is never ready.
func (d *dirWatch) eventChan() <-chan fsnotify.Event {
	if d.notify == nil {
		return nil
	}
	return d.notify.Events
}

func (d *dirWatch) errorChan() <-chan error {
	if d.notify == nil {
		return nil
	}
	return d.notify.Errors
}

func (d *dirWatch) close() {
	if d.notify != nil {
		_ = d.notify.Close()
	}
}
