package runkeys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/config/filewatch"
	"penstock/config/strictyaml"
	"penstock/proxy/telemetry/process"
)

// FileOptions configure a File.
type FileOptions struct {
	Path string
	// Use is called with all keys, in file order, whenever they change. Calls do not overlap.
	Use func([]config.Key)
	Log *zap.Logger
}

// KeyFile implements KeyStore with a file that only edges write.
type KeyFile struct {
	opts FileOptions

	mu      sync.Mutex
	lock    *os.File // the locked file; nil if this edge is not the writer
	entries []keyEntry
	loaded  bool
	content []byte
	readErr error
}

type keyEntry struct {
	id, text string
	key      config.Key
}

// OpenFile reads the file and passes its keys to FileOptions.Use. It succeeds even if the file does
// not exist. The error states what an operator must do.
func OpenFile(o FileOptions) (*KeyFile, error) {
	f := &KeyFile{opts: o}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.acquireLock(); errors.Is(err, ErrReadOnly) {
		o.Log.Warn("another edge writes the file of keys: this one only reads it, and refuses to make or change keys",
			zap.String("file", o.Path))
	} else if err != nil {
		return nil, fmt.Errorf("admin.keys.file: %w", err)
	}
	if err := f.readEntries(); err != nil {
		f.unlock()
		return nil, fmt.Errorf("admin.keys.file: %w", err)
	}
	if info, err := os.Stat(o.Path); err == nil && strictyaml.ReadableByOthers(info) {
		o.Log.Warn("the file of keys can be read by other users: chmod 600 keeps them out", zap.String("file", o.Path))
	}
	return f, nil
}

// CheckFile returns the error with which OpenFile would fail. A missing file is not an error.
func CheckFile(path string) error {
	f := &KeyFile{opts: FileOptions{Path: path, Use: func([]config.Key) {}}}
	return f.readEntries()
}

// watchInterval is how often the file is checked even if there are no file events.
const watchInterval = 500 * time.Millisecond

// Run adopts changes to the file until ctx is done.
func (f *KeyFile) Run(ctx context.Context) {
	w := &filewatch.Watcher{
		Paths: func() []string { return []string{f.opts.Path} }, OnChange: f.reload, Interval: watchInterval,
	}
	w.RecordHashes()
	f.reload() // the file may have changed since OpenFile returned
	w.Run(ctx)
}

// Close unlocks the file, so that another edge can become the writer.
func (f *KeyFile) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unlock()
}

func (f *KeyFile) unlock() {
	if f.lock != nil {
		_ = f.lock.Close()
		f.lock = nil
	}
}

func (f *KeyFile) reload() {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.readErr
	f.readErr = f.readEntries()
	switch {
	case f.readErr != nil && (before == nil || before.Error() != f.readErr.Error()):
		f.opts.Log.Error("the file of keys cannot be read: the last keys read stay in force", zap.Error(f.readErr))
	case f.readErr == nil && before != nil:
		f.opts.Log.Info("the file of keys can be read again", zap.Int("keys", len(f.entries)))
	}
}

func (f *KeyFile) readEntries() error {
	text := []byte(fileContent(nil))
	if gone := f.isMissing(); gone && len(f.entries) > 0 {
		return fmt.Errorf("%s is gone: the next change of a key writes it again", f.opts.Path)
	} else if !gone {
		var err error
		if text, err = strictyaml.ReadRegular(f.opts.Path, strictyaml.MaxFileBytes); err != nil {
			return err
		}
	}
	if f.loaded && bytes.Equal(text, f.content) {
		return nil
	}
	lines, err := parseFile(f.opts.Path, text, f.entries)
	if err != nil {
		return err
	}
	f.adoptLines(lines, text)
	return nil
}

func (f *KeyFile) adoptLines(lines []keyEntry, text []byte) {
	f.entries, f.content, f.loaded = lines, text, true
	keys := make([]config.Key, len(lines))
	for i := range lines {
		keys[i] = lines[i].key
	}
	f.opts.Use(keys)
}

// Entries implements KeyStore.
func (f *KeyFile) Entries(context.Context) (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]string, len(f.entries))
	for _, e := range f.entries {
		all[e.id] = e.text
	}
	return all, nil
}

// EffectNotice implements KeyStore.
func (f *KeyFile) EffectNotice() string { return "It is in force." }

// Update implements KeyStore. If it returns nil, the change is on disk and has taken effect.
func (f *KeyFile) Update(_ context.Context, id string, change func(entry string) (string, error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.acquireLock(); err != nil {
		return err
	}
	if err := f.readEntries(); err != nil && !f.isMissing() {
		return fmt.Errorf("%w: fix the file, or remove it to restore the keys that were read last: %w", ErrReadOnly, err)
	}
	lines := slices.Clone(f.entries)
	at := slices.IndexFunc(lines, func(e keyEntry) bool { return e.id == id })
	old := ""
	if at >= 0 {
		old = lines[at].text
	}
	text, err := change(old)
	if err != nil {
		return err
	}
	switch {
	case text == "" && at >= 0:
		lines = slices.Delete(lines, at, at+1)
	case text != "":
		key, err := config.ParseKeyEntry(text)
		if err != nil {
			return err
		}
		if key.ID != id {
			return errors.New("the entry is of another key")
		}
		if at < 0 {
			lines, at = append(lines, keyEntry{}), len(lines)
		}
		lines[at] = keyEntry{id, text, key}
	}
	out := []byte(fileContent(lines))
	if len(out) > strictyaml.MaxFileBytes {
		return fmt.Errorf("%s would be larger than %d MiB: revoke keys first", f.opts.Path, strictyaml.MaxFileBytes>>20)
	}
	if err := f.replaceFile(out); err != nil {
		return fmt.Errorf("%s cannot be written: %w", f.opts.Path, err)
	}
	f.readErr = nil
	f.adoptLines(lines, out)
	return nil
}

func (f *KeyFile) isMissing() bool {
	_, err := os.Lstat(f.opts.Path)
	return errors.Is(err, fs.ErrNotExist)
}

func (f *KeyFile) replaceFile(text []byte) error {
	name, folder := f.opts.Path+".new", filepath.Dir(f.opts.Path)
	next, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(name, f.opts.Path)
	}
	if err != nil {
		_ = os.Remove(name)
		return err
	}
	if dir, err := os.Open(folder); err == nil { // syncing the folder makes the rename survive a power failure
		_ = dir.Sync() // not supported by some file systems
		_ = dir.Close()
	}
	return nil
}

// acquireLock makes this edge the writer. If another edge is the writer, acquireLock returns
// ErrReadOnly. It also checks that the folder is writable.
func (f *KeyFile) acquireLock() error {
	if f.lock != nil {
		return nil
	}
	lock, err := os.OpenFile(f.opts.Path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return f.explainPermission(err)
	}
	if err := process.LockFile(lock); err != nil {
		_ = lock.Close()
		if errors.Is(err, process.ErrFileLocked) {
			return fmt.Errorf("%w: another edge writes %s: ask that one", ErrReadOnly, f.opts.Path)
		}
		return err
	}
	trial, err := os.OpenFile(f.opts.Path+".new", os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		_ = lock.Close()
		return f.explainPermission(err)
	}
	_ = trial.Close()
	if err := os.Remove(f.opts.Path + ".new"); err != nil {
		_ = lock.Close()
		return f.explainPermission(err)
	}
	f.lock = lock
	return nil
}

func (f *KeyFile) explainPermission(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: give the user of the edge the right to write in %s", err, filepath.Dir(f.opts.Path))
	}
	return err
}

// fileContent returns the content of the file for the given entries. The content is also a valid
// keys_file.
func fileContent(lines []keyEntry) string {
	const head = "# Keys that were made while edges run, one in a line. Edges alone write this file (admin.keys.file):\n" +
		"# make and change keys by `penstock key` or at /-/keys.\n"
	if len(lines) == 0 {
		return head + "keys: []\n"
	}
	var out strings.Builder
	out.WriteString(head + "keys:\n")
	for _, e := range lines {
		out.WriteString("  - " + e.text + "\n")
	}
	return out.String()
}

func parseFile(path string, text []byte, known []keyEntry) (lines []keyEntry, err error) {
	seen, before, headed, none := map[string]int{}, map[string]keyEntry{}, false, false
	for _, e := range known {
		before[e.text] = e
	}
	fail := func(n int, format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s", path, n, fmt.Sprintf(format, args...))
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		item, isItem := strings.CutPrefix(line, "- ")
		switch {
		case line == "" || line[0] == '#':
		case line == "keys: []" && !headed, line == "keys:" && !headed:
			headed, none = true, line != "keys:"
		case !headed || none || !isItem || !strings.HasPrefix(item, "{"):
			return nil, fail(n, "edges write a key as \"- \" and one line of JSON, below keys: take the line out, or put that key into keys_file")
		default:
			e, ok := before[item]
			if !ok {
				key, err := config.ParseKeyEntry(item)
				if err != nil {
					return nil, fail(n, "%s", err)
				}
				e = keyEntry{key.ID, item, key}
			}
			if first, twice := seen[e.id]; twice {
				return nil, fail(n, "the key %q is in line %d, too", e.id, first)
			}
			seen[e.id] = n
			lines = append(lines, e)
		}
	}
	if !none && len(lines) == 0 { // the file may have been truncated
		return nil, fail(max(n, 1), "the file lists no keys: an edge writes keys: [] where there are none")
	}
	return lines, nil
}
