package result

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"penstock/bench/exit"
)

// WriteFile writes a file anew.
func WriteFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	b := bufio.NewWriter(f)
	err = write(b)
	if err == nil {
		err = b.Flush()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// WriteTo writes to a file, or to out when no name is given.
func WriteTo(name string, out io.Writer, write func(io.Writer) error) error {
	if name == "" {
		return write(out)
	}
	return WriteFile(name, write)
}

// Writable is asked before the first request, so that no run is lost to a mistyped folder. What is
// there stays as it is, and what is not there is not left there. Its error is a usage error: code
// 2.
func Writable(name string) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		err = errors.New("it is a folder")
	case err == nil && !info.Mode().IsRegular(): // a pipe or a terminal: opening it is an act of its own
	case err == nil:
		var f *os.File
		if f, err = os.OpenFile(name, os.O_WRONLY, 0); err == nil {
			err = f.Close()
		}
	case errors.Is(err, fs.ErrNotExist):
		var f *os.File
		if f, err = os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
			err = errors.Join(f.Close(), os.Remove(name))
		} else if errors.Is(err, fs.ErrExist) { // made meanwhile, or a link to nothing
			err = nil
		}
	}
	if p := new(fs.PathError); errors.As(err, &p) {
		err = p.Err // the message has the path already
	}
	if err != nil {
		return exit.Usagef("--output %s cannot be written: %s", name, err)
	}
	return nil
}
