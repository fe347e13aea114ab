package filewatch

import (
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// dirWatch gives the events of the directories in which files, and what their symlinks lead to,
// stand. Directories are watched and not files, because a file that is replaced takes its watch
// with it. When the system has no events to give, it is silent.
type dirWatch struct {
	notify *fsnotify.Watcher // nil: no events
	dirs   map[string]bool
}

func newDirWatch() *dirWatch {
	n, err := fsnotify.NewWatcher()
	if err != nil {
		n = nil // out of inotify instances, most likely: looking at intervals goes on
	}
	return &dirWatch{notify: n, dirs: map[string]bool{}}
}

// follow watches the directories of paths and leaves those that none of them is in any more. A
// directory that is not there is tried again at the next call.
func (d *dirWatch) follow(paths []string) {
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
			_ = d.notify.Remove(dir) // fails when the directory is gone, and then so is the watch
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

// events is nil, and so never ready, when there are none.
func (d *dirWatch) events() <-chan fsnotify.Event {
	if d.notify == nil {
		return nil
	}
	return d.notify.Events
}

func (d *dirWatch) errors() <-chan error {
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
