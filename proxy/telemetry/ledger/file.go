package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"penstock/proxy/telemetry/observe"
	"penstock/proxy/telemetry/process"
)

// LockedError means that another edge writes the ledger.
type LockedError struct{ Path string }

func (e *LockedError) Error() string {
	return fmt.Sprintf("ledger: another edge writes %s: give each edge a ledger of its own", e.Path)
}

// ledgerFile is the ledger on disk. It is not safe for concurrent use.
type ledgerFile struct {
	path          string
	lock          *os.File
	turn          *os.File // lock of the process that gets lock next; nil if this process does not wait
	f             *os.File // nil until the file is open
	header        ledgerHeader
	size          int64 // length of the complete lines
	rewrittenSize int64 // size after the last rewrite
}

// A file is rewritten when it is rewriteGrowthBytes larger than four times its size after the last
// rewrite.
const rewriteGrowthBytes = 16 << 20

// CheckIsLedgerFile returns an error if the file at a path is not an edge's ledger. If the file does
// not exist or cannot be read, CheckIsLedgerFile returns nil, because Ledger.Run will try again.
func CheckIsLedgerFile(path string) error {
	info, _ := os.Stat(path)
	if info == nil {
		return nil
	}
	if !info.Mode().IsRegular() {
		return foreignFileError(path, fmt.Errorf("%w: it is a folder or a device", errNotLedger))
	}
	in, err := os.Open(path)
	if err == nil {
		defer in.Close()
		_, err = readLedger(&firstLineReader{from: in})
	}
	return foreignFileError(path, err)
}

// foreignFileError adds a remedy to the error for a file that is not a ledger. For other errors it
// returns nil.
func foreignFileError(path string, err error) error {
	if !errors.Is(err, errNotLedger) {
		return nil
	}
	return fmt.Errorf("%s is %w; name a file that is not there yet, or move this one away", path, err)
}

type firstLineReader struct {
	from  io.Reader
	ended bool
}

func (r *firstLineReader) Read(into []byte) (int, error) {
	if r.ended {
		return 0, io.EOF
	}
	n, err := r.from.Read(into)
	if end := bytes.IndexByte(into[:n], '\n'); end >= 0 {
		n, r.ended = end+1, true
	}
	return n, err
}

// open acquires the lock and reads the ledger. It creates no file except the lock files. If the file
// at the path is not a ledger, open does not even create the lock files.
func (f *ledgerFile) open() (ledgerContent, error) {
	if err := CheckIsLedgerFile(f.path); err != nil {
		return ledgerContent{}, fmt.Errorf("ledger: %w", err)
	}
	_, err := os.Stat(f.lockName())
	used := err == nil && f.lock == nil // a new ledger has no lock file yet
	if err := f.acquireLock(); err != nil {
		return ledgerContent{}, err
	}
	in, err := os.Open(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return ledgerContent{wasEmptied: used}, nil
	}
	if err != nil {
		return ledgerContent{}, err
	}
	defer in.Close()
	c, err := readLedger(in)
	c.wasEmptied = c.header.Format == ""
	return c, err
}

func (f *ledgerFile) lockName() string { return f.path + ".lock" }

// acquireLock acquires the lock. If several processes wait for it, the first of them gets it first.
// Otherwise, a process that ends soon might never get it, and its usage would be lost.
func (f *ledgerFile) acquireLock() (err error) {
	if f.lock != nil {
		return nil
	}
	var locked *LockedError
	if f.turn == nil {
		if f.turn, err = f.lockFile(f.path + ".next"); errors.As(err, &locked) {
			return err
		}
	}
	if f.lock, err = f.lockFile(f.lockName()); errors.As(err, &locked) || f.turn == nil {
		return err
	}
	err = errors.Join(err, f.turn.Close())
	f.turn = nil
	return err
}

// lockFile opens and locks a file. If another process has locked it, the error is a *LockedError.
func (f *ledgerFile) lockFile(name string) (*os.File, error) {
	lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		readable, readErr := os.Open(name) // the disk may be read-only
		switch {
		case readErr == nil:
			lock = readable
		case errors.Is(err, os.ErrPermission):
			return nil, fmt.Errorf("%w: give the user of the edge the right to write in %s", err, filepath.Dir(f.path))
		default:
			return nil, err // readErr may just mean that there is no lock file yet
		}
	}
	if err := process.LockFile(lock); err != nil {
		_ = lock.Close()
		if errors.Is(err, process.ErrFileLocked) {
			return nil, &LockedError{f.path}
		}
		return nil, err
	}
	return lock, nil
}

func (f *ledgerFile) rewrite(rows func(func(observe.UsageRow))) (err error) {
	name := f.path + ".new"
	next, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = next.Close()
			_ = os.Remove(name)
		}
	}()
	buffer, size := appendLine(nil, f.header), int64(0)
	flush := func() {
		if err == nil {
			_, err = next.Write(buffer)
		}
		size, buffer = size+int64(len(buffer)), buffer[:0]
	}
	rows(func(r observe.UsageRow) {
		if buffer = appendLine(buffer, newRow(&r)); len(buffer) >= maxLineBytes {
			flush()
		}
	})
	if flush(); err != nil {
		return err
	}
	if err := next.Sync(); err != nil {
		return err
	}
	if err := os.Rename(name, f.path); err != nil {
		return err
	}
	syncFolder(filepath.Dir(f.path))
	if f.f != nil {
		_ = f.f.Close()
	}
	f.f, f.size, f.rewrittenSize = next, size, size
	return nil
}

// syncFolder makes a new file name durable, if the system supports it.
func syncFolder(path string) {
	if dir, err := os.Open(path); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
}

func (f *ledgerFile) needsRewrite() bool { return f.size > rewriteGrowthBytes+4*f.rewrittenSize }

// appendLines appends lines and syncs the file. If this fails, write truncates the file to the complete
// lines. If truncating also fails, the next write overwrites the incomplete line.
func (f *ledgerFile) appendLines(lines []byte) error {
	_, err := f.f.WriteAt(lines, f.size)
	if err == nil {
		err = f.f.Sync()
	}
	if err != nil {
		_ = f.f.Truncate(f.size)
		return err
	}
	f.size += int64(len(lines))
	return nil
}

func (f *ledgerFile) close() error {
	var closers []io.Closer
	if f.f != nil {
		closers = append(closers, f.f)
	}
	for _, lock := range []*os.File{f.lock, f.turn} {
		if lock != nil {
			closers = append(closers, lock)
		}
	}
	var err error
	for _, c := range closers {
		err = errors.Join(err, c.Close())
	}
	f.f, f.lock, f.turn = nil, nil, nil
	return err
}
