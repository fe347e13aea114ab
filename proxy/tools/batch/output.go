package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"penstock/proxy/telemetry/process"
)

// outputLine is a line in the output. It has either a response or an error.
type outputLine struct {
	ID       string     `json:"id"`
	CustomID string     `json:"custom_id"`
	Response *response  `json:"response"`
	Error    *lineError `json:"error"`
}

type response struct {
	Status    int             `json:"status_code"`
	RequestID string          `json:"request_id"`
	Body      json.RawMessage `json:"body"`
}

type lineError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// isFinal reports whether the line does not have to be sent again. A final line was either
// answered, or refused because of its content. In the latter case, another attempt would probably
// also be refused.
func (a *outputLine) isFinal() bool {
	if a.Response == nil || isRetryable(a.Response.Status) {
		return false
	}
	switch a.Response.Status { // the key's permissions or the models may change
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return false
	}
	return true
}

func isRetryable(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout, 529:
		return true
	}
	return false
}

func (a *outputLine) isSuccess() bool { return a.Response != nil && a.Response.Status/100 == 2 }

type outputFile struct {
	mu      sync.Mutex
	file    *os.File
	doneIDs map[string]bool // custom_ids of the lines in the file

	refused int // number of refused lines in doneIDs
}

// openOutput opens the output, which may have been written by an earlier run. It removes a
// truncated line and lines that are not final. Only this run may use the output until it is closed.
func openOutput(path string) (*outputFile, error) {
	file, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	o := &outputFile{doneIDs: map[string]bool{}, file: file}
	if err := o.repairOutput(path); err != nil {
		return nil, errors.Join(err, o.file.Close())
	}
	return o, nil
}

// openLocked opens and locks a file. The lock is on the file itself, so the system releases it if
// the run is killed.
func openLocked(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err = lockOutput(file, path); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		mine, err := file.Stat()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
			return file, nil
		}
		_ = file.Close() // another run has just replaced the file
	}
}

func lockOutput(file *os.File, path string) error {
	err := process.LockFile(file)
	if errors.Is(err, process.ErrFileLocked) {
		return fmt.Errorf("another batch writes %s: give each batch an output of its own", path)
	}
	return err
}

// repairOutput reads the lines in an output. If lines must be removed, it rewrites the file. If the
// file is not the output of a batch, repairOutput returns an error and leaves the file unchanged.
func (o *outputFile) repairOutput(path string) error {
	old := o.file
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if o.file != next {
			_ = errors.Join(next.Close(), os.Remove(next.Name()))
		}
	}()
	kept, write := int64(0), bufio.NewWriter(next)
	var foreign error // set if the previous line is not from a batch
	err = scanLines(old, path, func(number int, line []byte) error {
		a := parseOutputLine(line)
		switch {
		case foreign != nil:
			return foreign
		case a == nil:
			foreign = &ExitError{exitUsage, fmt.Errorf("%s:%d: this is no line of a batch's output: "+
				"the file was left as it is; name another one", path, number)}
			if !json.Valid(line) && bytes.HasPrefix(line, []byte(outputLinePrefix[:min(len(line), len(outputLinePrefix))])) {
				return nil // a kill may have truncated the last line
			}
			return foreign
		case !a.isFinal() || o.doneIDs[a.CustomID]:
			return nil
		}
		if o.doneIDs[a.CustomID] = true; !a.isSuccess() {
			o.refused++
		}
		kept += int64(len(line)) + 1
		_, err := write.Write(append(bytes.Clone(line), '\n'))
		return err
	})
	if err != nil {
		return err
	}
	size, err := old.Seek(0, io.SeekEnd)
	if err == nil && foreign != nil {
		var end [1]byte
		if _, err = old.ReadAt(end[:], size-1); err == nil && end[0] == '\n' {
			err = foreign
		}
	}
	if err = errors.Join(err, write.Flush()); err != nil || size == kept {
		return err
	}
	if err := errors.Join(next.Sync(), lockOutput(next, path)); err != nil {
		return err
	}
	if err := os.Rename(next.Name(), path); err != nil {
		return err
	}
	o.file = next // already positioned at the end
	return old.Close()
}

// outputLinePrefix is the prefix of every line. It distinguishes a truncated line from any other text.
const outputLinePrefix = `{"id":"`

// parseOutputLine parses a line from an output. If the line is malformed, it returns nil.
func parseOutputLine(line []byte) *outputLine {
	a := &outputLine{}
	if json.Unmarshal(line, a) != nil || a.ID == "" || a.CustomID == "" || (a.Response == nil) == (a.Error == nil) {
		return nil
	}
	return a
}

// writeAnswer writes an answer. It uses a single write per line, so that a kill can truncate only
// the last line.
func (o *outputFile) writeAnswer(a *outputLine) error {
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err = o.file.Write(append(line, '\n'))
	return err
}

func (o *outputFile) close() error { return errors.Join(o.file.Sync(), o.file.Close()) }
