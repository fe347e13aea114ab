package config

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"penstock/config/money"
	"penstock/config/strictyaml"
)

// ChangeKind is how a value differs between two files.
type ChangeKind string

// The kinds of a Change.
const (
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Changed ChangeKind = "changed"
)

// Change is one difference between two files. It names the value and never shows it, so it can be
// logged.
type Change struct {
	Path        string // list entries are identified by name: upstreams[gpu-a].weight
	Kind        ChangeKind
	RestartOnly bool // a reload keeps the old value and reports it
}

// OfKeys reports whether the change is one that WithKeys applies.
func (c Change) OfKeys() bool {
	switch c.Path {
	case "auth", "keys", "groups", "keys_file", "on_revoke", "admin.token", "tls.client_ca":
		return true
	}
	return strings.HasPrefix(c.Path, "keys[") || strings.HasPrefix(c.Path, "groups[") || strings.HasPrefix(c.Path, "issuers") ||
		strings.HasPrefix(c.Path, "admin.tokens")
}

// String describes the change.
func (c Change) String() string {
	s := string(c.Kind) + " " + c.Path
	if c.RestartOnly {
		s += " (takes effect after a restart)"
	}
	return s
}

// Diff returns the changes from old to next, ordered by path, or nil if there are none. Both files
// are complete, so writing a default out is no change. A different order of keys, upstreams, models
// or engines is no change either. It is a change if a certificate file keeps its name but has other
// contents.
func Diff(old, next *File) []Change {
	d := &differ{}
	old, next = written(old), written(next)
	d.compare(reflect.ValueOf(old).Elem(), reflect.ValueOf(next).Elem())
	was := old.certificates()
	for path, content := range next.certificates() {
		listed := slices.ContainsFunc(d.changes, func(c Change) bool { return c.Path == path })
		if before, ok := was[path]; ok && before != content && !listed {
			d.changes = append(d.changes, Change{Path: path, Kind: Changed})
		}
	}
	for i := range d.changes {
		d.changes[i].RestartOnly = needsRestart(d.changes[i].Path, old, next)
	}
	slices.SortFunc(d.changes, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return d.changes
}

// Same reports whether next equals f exactly: in every value, in the order of lists, and in the
// contents of the certificate files.
func (f *File) Same(next *File) bool {
	a, b := *written(f), *written(next)
	a.origin, b.origin = nil, nil
	return reflect.DeepEqual(a, b) && maps.Equal(f.certificates(), next.certificates())
}

// WithKeys returns a copy of f with next's settings for who may call: auth, keys, groups,
// keys_file, issuers, tls.client_ca, on_revoke and the admin tokens. The result's Paths are the
// paths of both files.
func (f *File) WithKeys(next *File) *File {
	out := *f
	out.Auth, out.Keys, out.Groups, out.KeysFile = next.Auth, next.Keys, next.Groups, next.KeysFile
	out.Issuers, out.TLS.ClientCA, out.TLS.ClientCAs = next.Issuers, next.TLS.ClientCA, next.TLS.ClientCAs
	out.OnRevoke, out.Admin.Token, out.Admin.Tokens = next.OnRevoke, next.Admin.Token, next.Admin.Tokens
	if f.origin != nil {
		from := *f.origin
		from.files = slices.Clone(from.files)
		for _, path := range next.Paths() {
			if !slices.Contains(from.files, path) {
				from.files = append(from.files, path)
			}
		}
		out.origin = &from
	}
	return &out
}

// ModelsOtherThan returns the ids of f's models whose deployments or engines differ in next. A key
// with such an id may reach different engines in the two files.
func (f *File) ModelsOtherThan(next *File) []string {
	var out []string
	next = WithListed(next, Published(f))
	alike := slices.Equal(f.Discover, next.Discover)
	then, now := next.upstreamsByName(), f.upstreamsByName()
	served := make(map[string][]string, len(next.Models))
	for i := range next.Models {
		served[next.Models[i].ID] = next.serving(&next.Models[i], then)
	}
	for i := range f.Models {
		m := &f.Models[i]
		by, stays := served[m.ID]
		if !stays || !slices.Equal(f.serving(m, now), by) || m.Discovered && !alike {
			out = append(out, m.ID)
		}
	}
	return out
}

// serving returns a model's engines, each as a string with its address and the model's name there.
// byName maps the names of f's upstreams to their positions.
func (f *File) serving(m *Model, byName map[string]int) []string {
	out := make([]string, 0, len(m.Deployments))
	for _, d := range m.Deployments {
		at, ok := byName[d.Upstream]
		if !ok {
			continue
		}
		u := &f.Upstreams[at]
		of := strings.Join([]string{u.Name, u.URL, u.Resolve.SRV, u.Kubernetes.String(), d.Served}, " ")
		out = append(out, fmt.Sprintf("%s %d %t", of, d.Tier, u.External)) // the tiers of keys depend on these
	}
	slices.Sort(out)
	return out
}

func (f *File) certificates() map[string][sha256.Size]byte {
	if f.origin == nil {
		return nil
	}
	return f.origin.certificates
}

// differ collects changes. Most values are equal in both files, so it builds the path of a value
// only if the values differ.
type differ struct {
	changes []Change
	path    []step // of the values being compared
}

// step leads to a field, or to an entry of a list.
type step struct {
	name  string
	entry bool
}

// add records a change of the value that path leads to.
func (d *differ) add(kind ChangeKind) {
	path := ""
	for _, s := range d.path {
		if s.entry {
			path += "[" + s.name + "]"
		} else {
			path = strictyaml.Join(path, s.name)
		}
	}
	d.changes = append(d.changes, Change{Path: path, Kind: kind})
}

// below appends a step to the path, calls f to compare the values there, and removes the step.
func (d *differ) below(s step, f func()) {
	d.path = append(d.path, s)
	f()
	d.path = d.path[:len(d.path)-1]
}

func (d *differ) compare(old, next reflect.Value) {
	t := old.Type()
	switch {
	case t.Kind() == reflect.Struct && !indivisible(t):
		for _, n := range strictyaml.Fields(t) {
			d.below(step{name: n.Key}, func() { d.compare(old.Field(n.Index), next.Field(n.Index)) })
		}
	case t.Kind() == reflect.Slice && identity(t.Elem()) >= 0:
		d.compareNamed(old, next)
	case equal(old, next):
	case empty(old):
		d.add(Added)
	case empty(next):
		d.add(Removed)
	default:
		d.add(Changed)
	}
}

// equal reports whether two values of one type are deeply equal. It compares scalars and absent
// values, which are the most frequent, without a copy.
func equal(a, b reflect.Value) bool {
	switch kind := a.Kind(); {
	case kind == reflect.String || kind == reflect.Bool || a.CanInt() || a.CanFloat():
		return a.Equal(b)
	case kind == reflect.Slice || kind == reflect.Map || kind == reflect.Pointer:
		if a.IsNil() && b.IsNil() {
			return true
		}
		if names, ok := a.Interface().([]string); ok && (names == nil) == b.IsNil() {
			return slices.Equal(names, b.Interface().([]string))
		}
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// compareNamed compares two lists whose entries have names.
func (d *differ) compareNamed(old, next reflect.Value) {
	name := identity(old.Type().Elem())
	before, after := byName(old, name), byName(next, name)
	for id, v := range before {
		d.below(step{id, true}, func() {
			if w, stays := after[id]; stays {
				d.compare(v, w)
			} else {
				d.add(Removed)
			}
		})
	}
	for id := range after {
		if _, was := before[id]; !was {
			d.below(step{id, true}, func() { d.add(Added) })
		}
	}
}

func byName(list reflect.Value, field int) map[string]reflect.Value {
	out := make(map[string]reflect.Value, list.Len())
	for i := range list.Len() {
		out[list.Index(i).Field(field).String()] = list.Index(i)
	}
	return out
}

// identity returns the index of the field that contains the name of an entry of type t, or -1 if
// such entries have no name.
func identity(t reflect.Type) int {
	var name string
	switch t {
	case reflect.TypeFor[Key](), reflect.TypeFor[Group](), reflect.TypeFor[Model]():
		name = "id"
	case reflect.TypeFor[Issuer]():
		name = "issuer"
	case reflect.TypeFor[Upstream](), reflect.TypeFor[Engine](), reflect.TypeFor[AdminToken](), reflect.TypeFor[Hook]():
		name = "name"
	default:
		return -1
	}
	return strictyaml.FieldByKey(t, name)
}

// indivisible reports whether values of t are compared as one value, because their fields have no
// meaning alone.
func indivisible(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[money.Amount]() ||
		t == reflect.TypeFor[Concurrency]() || t == reflect.TypeFor[Resolve]()
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Pointer:
		return v.IsNil()
	}
	return false
}

// restartOnly lists the settings that a running process cannot change, because it has already used
// them, for example to open a port. Diff marks these settings, and KeepRestartOnly keeps their old
// values. A test compares the table with the README. Switching TLS on or off also needs a restart
// (switchesTLS, switchesAdminTLS).
var restartOnly = []string{
	"listen", "admin.listen", "admin.keys", "log.format", "tracing.otlp", "limits.header",
	"fleet.lost", "fleet.store", "fleet.keys", "fleet.secrets", "ledger",
	"tls.acme.email", "tls.acme.directory", "tls.acme.folder", "tls.acme.http", "tls.acme.ca", "tls.acme.eab",
	"timeouts.client_header", "timeouts.client_idle",
}

// needsRestart reports whether a change of the setting at path takes effect only after a restart.
func needsRestart(path string, old, next *File) bool {
	within := func(setting string) bool { return path == setting || strings.HasPrefix(path, setting+".") }
	return slices.ContainsFunc(restartOnly, within) ||
		strings.HasPrefix(path, "tls.") && switchesTLS(old, next) ||
		strings.HasPrefix(path, "admin.tls") && switchesAdminTLS(old, next)
}

// switchesTLS reports whether TLS is switched on or off, or its certificates move between files and
// ACME. A replaced certificate needs no restart.
func switchesTLS(old, next *File) bool {
	return old.TLS.Enabled() != next.TLS.Enabled() || old.TLS.ACME.Enabled() != next.TLS.ACME.Enabled()
}

func switchesAdminTLS(old, next *File) bool {
	return old.Admin.TLS.Enabled() != next.Admin.TLS.Enabled()
}

// KeepRestartOnly sets every setting of f that needs a restart to its value in running.
func (f *File) KeepRestartOnly(running *File) {
	if switchesTLS(running, f) {
		f.TLS = running.TLS
	}
	if switchesAdminTLS(running, f) {
		f.Admin.TLS = running.Admin.TLS
	}
	to, from := reflect.ValueOf(f).Elem(), reflect.ValueOf(running).Elem()
	for _, path := range restartOnly {
		setting(to, path).Set(setting(from, path))
	}
}

// setting returns the field of file at path.
func setting(file reflect.Value, path string) reflect.Value {
	for name := range strings.SplitSeq(path, ".") {
		file = file.Field(strictyaml.FieldByKey(file.Type(), name))
	}
	return file
}
