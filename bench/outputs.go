package bench

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// checkOutputs is asked before the first request whether every file that the run will write can be written, so that no run is lost
// to a mistyped folder. It leaves nothing behind. Its error is a usage error: code 2.
func checkOutputs(o *Options, c *Checks) error {
	for _, name := range o.Output {
		if err := creatable(name); err != nil {
			return usageError("--output %s cannot be written: %s", name, cause(err))
		}
	}
	if o.savesResult() {
		// Without --result-filename the name has the date in it, and is not known yet: any new name of the folder will do.
		name := filepath.Join(o.ResultDir, orText(o.ResultFilename, ".penstock-result"))
		if o.ResultDir != "" {
			name = beneath(name, o.ResultDir)
		}
		if err := creatable(name); err != nil {
			return usageError("the result file cannot be written to --result-dir %s: %s", orText(o.ResultDir, "."), cause(err))
		}
	}
	if c.JUnit != "" {
		if err := replaceable(c.JUnit); err != nil {
			return usageError("--junit %s cannot be written: %s", c.JUnit, cause(err))
		}
	}
	return nil
}

// creatable says whether a file can be opened for writing. What is there stays as it is, and what is not there is not left there.
func creatable(name string) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a folder")
	case err == nil && !info.Mode().IsRegular():
		return nil // a pipe or a terminal: opening it is an act of its own
	case err == nil:
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) { // somebody else made it in between, or it is a link to a file that is not there yet
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(name))
}

// replaceable says whether writeFile can put a file there, which it does by a new file beside it.
func replaceable(name string) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return errors.New("it is a folder")
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// beneath returns name, or, where its folder dir is yet to be made, a name in the nearest folder above that is there.
func beneath(name, dir string) string {
	for {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		name, dir = filepath.Join(parent, ".penstock-result"), parent
	}
	return name
}

// cause is an error of the file system without the path, which the message has already.
func cause(err error) error {
	if p := new(fs.PathError); errors.As(err, &p) {
		return p.Err
	}
	return err
}
