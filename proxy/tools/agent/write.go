package agent

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"penstock/proxy/front/plaintext"
)

// write prints the changes, and writes the file. If a file with different content exists, it first
// saves that file under another name.
func (f *settingsFile) write(w io.Writer, now time.Time) error {
	old, there, err := f.read()
	if err != nil {
		return err
	}
	if there && string(old) == f.Text {
		fmt.Fprintf(w, "%s is as it should be\n", f.Path)
		return nil
	}
	path, kept := f.Path, os.DevNull
	if target, err := filepath.EvalSymlinks(path); err == nil { // preserves a symbolic link
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if there {
		if kept, err = f.backup(old, now); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "--- %s\n+++ %s\n%s", kept, f.Path, differingLines(string(old), f.Text))
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	if err = writeAndClose(next, []byte(f.Text)); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		_ = os.Remove(next.Name())
	}
	return err
}

// read returns the content of an existing file. It reads only regular files, because opening a pipe
// would block.
func (f *settingsFile) read() (text []byte, there bool, err error) {
	old, err := os.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if os.IsNotExist(err) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}
	defer func() { _ = old.Close() }()
	info, err := old.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file: move it out of the way", f.Path)
	}
	if err != nil {
		return nil, false, err
	}
	text, err = io.ReadAll(old)
	return text, true, err
}

const backupTimestampFormat = "20060102-150405"

// backup saves the old content to a new file, and returns the name of that file. It does not
// overwrite a file saved within the same second.
func (f *settingsFile) backup(old []byte, now time.Time) (string, error) {
	stamped := f.Path + "." + now.UTC().Format(backupTimestampFormat)
	name := stamped
	for n := 2; ; n++ {
		kept, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case err == nil:
			return name, writeAndClose(kept, old)
		case !os.IsExist(err):
			return "", err
		}
		name = stamped + "-" + strconv.Itoa(n)
	}
}

func writeAndClose(f *os.File, text []byte) error {
	_, err := f.Write(text)
	if last := f.Close(); err == nil {
		err = last
	}
	return err
}

// differingLines returns the lines that remain after removing the common prefix and the common
// suffix of two texts.
func differingLines(old, next string) string {
	was, is := strings.SplitAfter(old, "\n"), strings.SplitAfter(next, "\n")
	for len(was) > 0 && len(is) > 0 && was[0] == is[0] {
		was, is = was[1:], is[1:]
	}
	for len(was) > 0 && len(is) > 0 && was[len(was)-1] == is[len(is)-1] {
		was, is = was[:len(was)-1], is[:len(is)-1]
	}
	var b strings.Builder
	for i, lines := range [][]string{was, is} {
		for _, line := range lines {
			if line != "" {
				b.WriteString("-+"[i:i+1] + plaintext.CleanLine(strings.TrimSuffix(line, "\n")) + "\n")
			}
		}
	}
	return b.String()
}
