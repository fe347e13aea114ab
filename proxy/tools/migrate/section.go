package migrate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// section is a mapping in the other file. A reader removes the settings that it understands from
// it.
type section struct {
	path  string // "" for the whole file
	items yaml.MapSlice
	taken map[string]bool
}

func newSection(path string, v any) *section {
	items, _ := v.(yaml.MapSlice)
	return &section{path: path, items: items, taken: map[string]bool{}}
}

// take removes a key and returns its value, or nil if the key is missing.
func (s *section) take(key string) any {
	s.taken[key] = true
	for _, item := range s.items {
		if fmt.Sprint(item.Key) == key {
			return item.Value
		}
	}
	return nil
}

// text takes a scalar. It is empty if the value is missing, null or not a scalar.
func (s *section) text(key string) string { return scalar(s.take(key)) }

func scalar(v any) string {
	switch v := v.(type) {
	case nil, yaml.MapSlice, []any:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return strings.TrimSpace(fmt.Sprint(v))
	}
}

// number takes a number above zero. It returns 0 for any other value.
func (s *section) number(key string) float64 {
	n, err := strconv.ParseFloat(s.text(key), 64)
	if err != nil || !(n > 0) || n > 1e12 {
		return 0
	}
	return n
}

// integer takes a whole number above zero. It returns 0 for any other value.
func (s *section) integer(key string) int { return int(s.number(key)) }

// under takes a mapping.
func (s *section) under(key string) *section { return newSection(join(s.path, key), s.take(key)) }

// list takes a list. A single value counts as a list with one entry.
func (s *section) list(key string) []any {
	switch v := s.take(key).(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}

// names takes a list of texts.
func (s *section) names(key string) (out []string) {
	for _, v := range s.list(key) {
		if name := scalar(v); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// entries passes all members of a mapping to f, in order.
func (s *section) entries(f func(key string, value any)) {
	for _, item := range s.items {
		key := fmt.Sprint(item.Key)
		s.taken[key] = true
		f(key, item.Value)
	}
}

// ignore removes keys that have no meaning for an edge.
func (s *section) ignore(keys ...string) {
	for _, key := range keys {
		s.taken[key] = true
	}
}

// rest adds a note for each remaining key. why maps keys that many files have to the reasons.
func (s *section) rest(p *plan, why map[string]string) {
	for _, item := range s.items {
		key := fmt.Sprint(item.Key)
		if s.taken[key] || item.Value == nil {
			continue
		}
		reason := why[key]
		if reason == "" {
			reason = "there is no counterpart"
		}
		p.note("%s: %s", join(s.path, key), reason)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
