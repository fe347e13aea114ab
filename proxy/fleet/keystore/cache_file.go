package keystore

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func readCacheFile(name string) (all map[string]string, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s is no copy of keys: %w", name, err)
	}
	return all, nil
}

// writeCacheFile replaces the file atomically, so that a killed process leaves either the complete
// old file or the complete new file.
func writeCacheFile(name string, all map[string]string) error {
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	// CreateTemp creates the file with the mode 0600.
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // it is there only if something else has failed
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if bad := file.Close(); err == nil {
		err = bad
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
