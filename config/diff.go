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

// ChangeKind is the kind of a ChangedSetting.
type ChangeKind string

// Kinds of a ChangedSetting.
const (
	SettingAdded   ChangeKind = "added"
	SettingRemoved ChangeKind = "removed"
	SettingChanged ChangeKind = "changed"
)

// ChangedSetting is a difference between two files. It does not contain the values of settings, so
// it can be logged.
type ChangedSetting struct {
	Path        string // list entries are identified by name: upstreams[gpu-a].weight
	Kind        ChangeKind
	RestartOnly bool // a reload keeps the old value and logs a warning
}

// IsAccessChange reports whether the change is one that WithAccessSettings applies.
func (c ChangedSetting) IsAccessChange() bool {
	switch c.Path {
	case "auth", "keys", "groups", "keys_file", "on_revoke", "admin.token", "tls.client_ca":
		return true
	}
	return strings.HasPrefix(c.Path, "keys[") || strings.HasPrefix(c.Path, "groups[") || strings.HasPrefix(c.Path, "issuers") ||
		strings.HasPrefix(c.Path, "admin.tokens")
}

// String describes the change.
func (c ChangedSetting) String() string {
	s := string(c.Kind) + " " + c.Path
	if c.RestartOnly {
		s += " (takes effect after a restart)"
	}
	return s
}

// Diff returns the changes from old to next, ordered by path. Defaults are filled in, so setting a
// value to its default is not a change. The order of keys, upstreams, models and engines does not
// matter. A certificate file with the same name but different contents is a change.
func Diff(old, next *File) []ChangedSetting {
	d := &fileDiffer{}
	old, next = withoutDiscoveredModels(old), withoutDiscoveredModels(next)
	d.compare(reflect.ValueOf(old).Elem(), reflect.ValueOf(next).Elem())
	was := old.certificates()
	for path, content := range next.certificates() {
		listed := slices.ContainsFunc(d.changes, func(c ChangedSetting) bool { return c.Path == path })
		if before, ok := was[path]; ok && before != content && !listed {
			d.changes = append(d.changes, ChangedSetting{Path: path, Kind: SettingChanged})
		}
	}
	for i := range d.changes {
		d.changes[i].RestartOnly = needsRestart(d.changes[i].Path, old, next)
	}
	slices.SortFunc(d.changes, func(a, b ChangedSetting) int { return cmp.Compare(a.Path, b.Path) })
	return d.changes
}

// Same reports whether next equals f in all values, including the order of lists, and in the
// contents of the certificate files.
func (f *File) Same(next *File) bool {
	a, b := *withoutDiscoveredModels(f), *withoutDiscoveredModels(next)
	a.origin, b.origin = nil, nil
	return reflect.DeepEqual(a, b) && maps.Equal(f.certificates(), next.certificates())
}

// WithAccessSettings returns a copy of f with the access settings of next: auth, keys, groups, keys_file,
// issuers, tls.client_ca, on_revoke and the admin tokens. The copy's ReferencedFiles include those
// of both files.
func (f *File) WithAccessSettings(next *File) *File {
	out := *f
	out.Auth, out.Keys, out.Groups, out.KeysFile = next.Auth, next.Keys, next.Groups, next.KeysFile
	out.Issuers, out.TLS.ClientCA, out.TLS.ClientCAs = next.Issuers, next.TLS.ClientCA, next.TLS.ClientCAs
	out.OnRevoke, out.Admin.Token, out.Admin.Tokens = next.OnRevoke, next.Admin.Token, next.Admin.Tokens
	if f.origin != nil {
		from := *f.origin
		from.files = slices.Clone(from.files)
		for _, path := range next.ReferencedFiles() {
			if !slices.Contains(from.files, path) {
				from.files = append(from.files, path)
			}
		}
		out.origin = &from
	}
	return &out
}

// ChangedModels returns the ids of the models in f whose deployments or engines differ in next.
// With next, a key that may use such an id may therefore reach different engines.
func (f *File) ChangedModels(next *File) []string {
	var out []string
	next = WithDiscoveredModels(next, DiscoveredModelsByUpstream(f))
	alike := slices.Equal(f.Discover, next.Discover)
	then, now := next.upstreamsByName(), f.upstreamsByName()
	served := make(map[string][]string, len(next.Models))
	for i := range next.Models {
		served[next.Models[i].ID] = next.servingEngines(&next.Models[i], then)
	}
	for i := range f.Models {
		m := &f.Models[i]
		by, stays := served[m.ID]
		if !stays || !slices.Equal(f.servingEngines(m, now), by) || m.Discovered && !alike {
			out = append(out, m.ID)
		}
	}
	return out
}

// servingEngines returns a string for each engine of a model. The string contains the engine's
// address and the served name. byName maps names to indices in f.Upstreams.
func (f *File) servingEngines(m *Model, byName map[string]int) []string {
	out := make([]string, 0, len(m.Deployments))
	for _, d := range m.Deployments {
		at, ok := byName[d.Upstream]
		if !ok {
			continue
		}
		u := &f.Upstreams[at]
		of := strings.Join([]string{u.Name, u.URL, u.Resolve.SRV, u.Kubernetes.String(), d.Served}, " ")
		// whether a key may use the engine depends on the last two values
		out = append(out, fmt.Sprintf("%s %d %t", of, d.Tier, u.External))
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

// fileDiffer collects changes. It builds paths only for the values that differ, because most values
// are equal.
type fileDiffer struct {
	changes []ChangedSetting
	path    []pathStep // path of the values being compared
}

// pathStep is a field, or an entry of a list.
type pathStep struct {
	name    string
	isEntry bool
}

func (d *fileDiffer) addChange(kind ChangeKind) {
	path := ""
	for _, s := range d.path {
		if s.isEntry {
			path += "[" + s.name + "]"
		} else {
			path = strictyaml.JoinPath(path, s.name)
		}
	}
	d.changes = append(d.changes, ChangedSetting{Path: path, Kind: kind})
}

// visitStep calls f with a step appended to the path.
func (d *fileDiffer) visitStep(s pathStep, f func()) {
	d.path = append(d.path, s)
	f()
	d.path = d.path[:len(d.path)-1]
}

func (d *fileDiffer) compare(old, next reflect.Value) {
	t := old.Type()
	switch {
	case t.Kind() == reflect.Struct && !isAtomic(t):
		for _, n := range strictyaml.Fields(t) {
			d.visitStep(pathStep{name: n.Key}, func() { d.compare(old.Field(n.Index), next.Field(n.Index)) })
		}
	case t.Kind() == reflect.Slice && identityField(t.Elem()) >= 0:
		d.compareNamed(old, next)
	case deepEqual(old, next):
	case isEmptyValue(old):
		d.addChange(SettingAdded)
	case isEmptyValue(next):
		d.addChange(SettingRemoved)
	default:
		d.addChange(SettingChanged)
	}
}

// deepEqual reports whether two values of the same type are deeply equal. It compares scalars and
// absent values, which are the most frequent, without copying them.
func deepEqual(a, b reflect.Value) bool {
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
func (d *fileDiffer) compareNamed(old, next reflect.Value) {
	name := identityField(old.Type().Elem())
	before, after := entriesByName(old, name), entriesByName(next, name)
	for id, v := range before {
		d.visitStep(pathStep{id, true}, func() {
			if w, stays := after[id]; stays {
				d.compare(v, w)
			} else {
				d.addChange(SettingRemoved)
			}
		})
	}
	for id := range after {
		if _, was := before[id]; !was {
			d.visitStep(pathStep{id, true}, func() { d.addChange(SettingAdded) })
		}
	}
}

func entriesByName(list reflect.Value, field int) map[string]reflect.Value {
	out := make(map[string]reflect.Value, list.Len())
	for i := range list.Len() {
		out[list.Index(i).Field(field).String()] = list.Index(i)
	}
	return out
}

// identityField returns the index of the field that identifies entries of type t, or -1.
func identityField(t reflect.Type) int {
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
	return strictyaml.FieldIndexByKey(t, name)
}

// isAtomic reports whether values of type t are compared as a whole.
func isAtomic(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[money.Amount]() ||
		t == reflect.TypeFor[Concurrency]() || t == reflect.TypeFor[Resolve]()
}

func isEmptyValue(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Pointer:
		return v.IsNil()
	}
	return false
}

// restartOnly lists the settings that a running process cannot change, for example because it has
// already opened a port. Diff marks them, and KeepRestartOnly keeps their old values. A test
// compares this list with the README. Enabling or disabling TLS also needs a restart (see
// switchesTLS and switchesAdminTLS).
var restartOnly = []string{
	"listen", "admin.listen", "admin.keys", "log.format", "tracing.otlp", "limits.header",
	"fleet.lost", "fleet.store", "fleet.keys", "fleet.secrets", "ledger",
	"tls.acme.email", "tls.acme.directory", "tls.acme.folder", "tls.acme.http", "tls.acme.ca", "tls.acme.eab",
	"timeouts.client_header", "timeouts.client_idle",
}

// needsRestart reports whether a change at path takes effect only after a restart.
func needsRestart(path string, old, next *File) bool {
	within := func(setting string) bool { return path == setting || strings.HasPrefix(path, setting+".") }
	return slices.ContainsFunc(restartOnly, within) ||
		strings.HasPrefix(path, "tls.") && switchesTLS(old, next) ||
		strings.HasPrefix(path, "admin.tls") && switchesAdminTLS(old, next)
}

// switchesTLS reports whether next turns TLS on or off, or switches its certificates between files
// and ACME. Replacing a certificate does not require a restart.
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
		settingField(to, path).Set(settingField(from, path))
	}
}

func settingField(file reflect.Value, path string) reflect.Value {
	for name := range strings.SplitSeq(path, ".") {
		file = file.Field(strictyaml.FieldIndexByKey(file.Type(), name))
	}
	return file
}
