package config

import (
	"reflect"
	"slices"
	"strings"

	"penstock/config/strictyaml"
)

// restartOnly is the table of the settings that a running process cannot change, because it was
// bound, opened or sized with them when it started. Diff marks them, KeepRestartOnly holds them
// back, and a test compares the table with the README. TLS on or off belongs to them, too
// (switchesTLS).
var restartOnly = []string{
	"listen", "admin.listen", "log.format", "tracing.otlp",
	"limits.header",
	"fleet.lost", "fleet.store", "fleet.keys", "ledger",
	"timeouts.client_header", "timeouts.client_idle",
}

// needsRestart reports whether a change of the setting at path between old and next takes effect
// only after a restart.
func needsRestart(path string, old, next *File) bool {
	within := func(setting string) bool { return path == setting || strings.HasPrefix(path, setting+".") }
	return slices.ContainsFunc(restartOnly, within) ||
		strings.HasPrefix(path, "tls.") && switchesTLS(old, next)
}

// switchesTLS reports whether TLS goes on or off. Another certificate needs no restart.
func switchesTLS(old, next *File) bool { return old.TLS.Enabled() != next.TLS.Enabled() }

// KeepRestartOnly sets every setting of f that needs a restart to what it is in running.
func (f *File) KeepRestartOnly(running *File) {
	if switchesTLS(running, f) {
		f.TLS = running.TLS
	}
	to, from := reflect.ValueOf(f).Elem(), reflect.ValueOf(running).Elem()
	for _, path := range restartOnly {
		setting(to, path).Set(setting(from, path))
	}
}

// setting returns the field of file that path names.
func setting(file reflect.Value, path string) reflect.Value {
	for name := range strings.SplitSeq(path, ".") {
		file = file.Field(strictyaml.FieldByKey(file.Type(), name))
	}
	return file
}
