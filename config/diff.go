package config

import (
	"cmp"
	"crypto/sha256"
	"reflect"
	"slices"
	"strings"
	"time"
)

// ChangeKind says what happened to a value between two files.
type ChangeKind string

// The kinds of a Change.
const (
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Changed ChangeKind = "changed"
)

// Change is one difference between two files. It names the value and never shows it, so it can be logged.
type Change struct {
	Path        string // entries of lists are called by their name: upstreams[gpu-a].weight
	Kind        ChangeKind
	RestartOnly bool // a reload reports it and keeps the old value
}

// String returns the change in words.
func (c Change) String() string {
	s := string(c.Kind) + " " + c.Path
	if c.RestartOnly {
		s += " (takes effect after a restart)"
	}
	return s
}

// restartOnly lists what a running process cannot change, because it was bound, opened or sized when it started.
var restartOnly = []string{
	"listen", "admin.listen", "log.format", "tracing.otlp",
	"limits.header",
	"timeouts.client_header", "timeouts.client_idle",
}

// Diff returns what changed from old to next, ordered by path; nil when nothing did. Both files are complete, so a default
// that is now written out is no change, and neither is another order of keys, upstreams, models or engines.
func Diff(old, next *File) []Change {
	d := &differ{}
	d.compare("", reflect.ValueOf(*old), reflect.ValueOf(*next))
	if old.TLS.Enabled() != next.TLS.Enabled() {
		for i := range d.changes {
			if strings.HasPrefix(d.changes[i].Path, "tls.") {
				d.changes[i].RestartOnly = true // other certificates are read while running; TLS on or off is not
			}
		}
	}
	slices.SortFunc(d.changes, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return d.changes
}

// Same reports whether next asks for exactly what f does: every value, the order of lists, and what is in the certificate
// files.
func (f *File) Same(next *File) bool {
	a, b := *f, *next
	a.origin, b.origin = nil, nil
	return reflect.DeepEqual(a, b) && f.certificates() == next.certificates()
}

func (f *File) certificates() [sha256.Size]byte {
	if f.origin == nil {
		return [sha256.Size]byte{}
	}
	return f.origin.certificates
}

type differ struct{ changes []Change }

func (d *differ) add(path string, kind ChangeKind) {
	d.changes = append(d.changes, Change{path, kind, slices.Contains(restartOnly, path)})
}

func (d *differ) compare(path string, old, next reflect.Value) {
	t := old.Type()
	switch {
	case t.Kind() == reflect.Struct && !whole(t):
		for _, n := range fieldNames(t) {
			d.compare(join(path, n.yaml), old.Field(n.field), next.Field(n.field))
		}
	case t.Kind() == reflect.Slice && identity(t.Elem()) != "":
		d.compareNamed(path, old, next)
	case reflect.DeepEqual(old.Interface(), next.Interface()):
	case empty(old):
		d.add(path, Added)
	case empty(next):
		d.add(path, Removed)
	default:
		d.add(path, Changed)
	}
}

// compareNamed compares two lists whose entries have names.
func (d *differ) compareNamed(path string, old, next reflect.Value) {
	name := identity(old.Type().Elem())
	before, after := byName(old, name), byName(next, name)
	for id, v := range before {
		at := path + "[" + id + "]"
		if w, stays := after[id]; stays {
			d.compare(at, v, w)
		} else {
			d.add(at, Removed)
		}
	}
	for id := range after {
		if _, was := before[id]; !was {
			d.add(path+"["+id+"]", Added)
		}
	}
}

func byName(list reflect.Value, field string) map[string]reflect.Value {
	out := make(map[string]reflect.Value, list.Len())
	for i := range list.Len() {
		out[list.Index(i).FieldByName(field).String()] = list.Index(i)
	}
	return out
}

// identity names the field that an entry of type t is known by; "" when entries of t have no name.
func identity(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Key](), reflect.TypeFor[Model]():
		return "ID"
	case reflect.TypeFor[Upstream](), reflect.TypeFor[Engine]():
		return "Name"
	}
	return ""
}

// whole reports whether values of t are compared as one: their parts make no sense alone.
func whole(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[Concurrency]()
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
