package strictyaml

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// Maximum sizes of files in bytes.
const (
	MaxFileBytes       = 8 << 20
	maxSecretFileBytes = 64 << 10
)

// ResolvePath resolves a path relative to dir. An empty path stays empty.
func ResolvePath(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// ReadRegular reads a regular file of at most limit bytes. It refuses pipes and devices, because
// reading them may never end.
func ReadRegular(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, FileError(name, err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory, not a file", name)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return ReadBounded(name, limit)
}

// ReadBounded reads a file of any type that has at most limit bytes.
func ReadBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, FileError(name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, FileError(name, err)
	}
	if int64(len(text)) > limit {
		unit, size := "MiB", limit>>20
		if size == 0 {
			unit, size = "KiB", limit>>10
		}
		return nil, fmt.Errorf("%s is larger than %d%s", name, size, unit)
	}
	return text, nil
}

// FileError explains in one line why a file cannot be read.
func FileError(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be read: permission denied; let the user that runs penstock read it", name)
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("%s cannot be read: %w", name, err)
}

// WritableByOthers reports whether users other than the owner can write to a file or folder.
func WritableByOthers(info os.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0
}

// ReadableByOthers reports whether users other than the owner and the group can read a file.
func ReadableByOthers(info os.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&^0o640 != 0
}
