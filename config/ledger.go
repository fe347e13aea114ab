package config

import (
	"os"
	"path/filepath"
	"strconv"

	"penstock/config/strictyaml"
)

// Ledger says where the usage of keys and models is kept over restarts: a path, or a mapping.
type Ledger struct {
	Path string `yaml:"path"` // of a file that this edge alone writes; joined with the file's folder
}

// BindNode accepts the path alone, or a mapping with the members of Ledger.
func (l *Ledger) BindNode(b *strictyaml.Binder, n strictyaml.Node) {
	if n.IsMapping() {
		b.Fields(n, l)
	} else {
		b.Scalar(n, &l.Path)
	}
	if _, err := strconv.ParseInt(l.Path, 10, 64); err == nil {
		b.Fail(n, l.Path+" is a number, and the ledger is a file: write its path, such as usage.ledger")
	}
}

// ledger checks where usage is kept.
func (c processChecks) ledger() {
	l := &c.file.Ledger
	if l.Path == "" {
		if c.places.Has("ledger") {
			c.check.fail("ledger", "the ledger needs a path, such as usage.ledger; without one leave it out")
		}
		return
	}
	if info, err := os.Stat(filepath.Dir(l.Path)); err != nil || !info.IsDir() {
		c.check.warn("ledger", "its folder does not exist: the ledger is begun once it does")
	}
}
