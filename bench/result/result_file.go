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

// WriteFile creates or replaces a file.
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

// WriteTo writes to a file, or to out if name is "".
func WriteTo(name string, out io.Writer, write func(io.Writer) error) error {
	if name == "" {
		return write(out)
	}
	return WriteFile(name, write)
}

// CheckWritable checks before the run that a file can be written, so that a mistyped directory does
// not waste a run. It neither changes an existing file nor leaves a new file behind. Its error is a
// usage error (code 2).
func CheckWritable(name string) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		err = errors.New("it is a folder")
	case err == nil && !info.Mode().IsRegular(): // do not open a pipe or a terminal, because that has side effects
	case err == nil:
		var f *os.File
		if f, err = os.OpenFile(name, os.O_WRONLY, 0); err == nil {
			err = f.Close()
		}
	case errors.Is(err, fs.ErrNotExist):
		var f *os.File
		if f, err = os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
			err = errors.Join(f.Close(), os.Remove(name))
		} else if errors.Is(err, fs.ErrExist) { // the file was created in the meantime, or is a dangling link
			err = nil
		}
	}
	if p := new(fs.PathError); errors.As(err, &p) {
		err = p.Err // the message already contains the path
	}
	if err != nil {
		return exit.Usagef("--output %s cannot be written: %s", name, err)
	}
	return nil
}
