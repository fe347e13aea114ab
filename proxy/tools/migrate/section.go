package migrate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// section is a mapping in the other file. The reader takes the settings that it understands out of
// the section.
type section struct {
	path  string // empty for the entire file
	items yaml.MapSlice
	taken map[string]bool
}

func newSection(path string, v any) *section {
	items, _ := v.(yaml.MapSlice)
	return &section{path: path, items: items, taken: map[string]bool{}}
}

func (s *section) take(key string) any {
	s.taken[key] = true
	for _, item := range s.items {
		if fmt.Sprint(item.Key) == key {
			return item.Value
		}
	}
	return nil
}

// text takes a setting and returns its scalar value. If the setting is missing, it returns "".
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

// number takes a setting and returns its value. If the value is not a positive number, it returns
// 0.
func (s *section) number(key string) float64 {
	n, err := strconv.ParseFloat(s.text(key), 64)
	if err != nil || !(n > 0) || n > 1e12 {
		return 0
	}
	return n
}

// integer takes a setting and returns its value. If the value is not a positive integer, it returns
// 0.
func (s *section) integer(key string) int { return int(s.number(key)) }

func (s *section) under(key string) *section { return newSection(join(s.path, key), s.take(key)) }

// list takes a setting and returns its list. A single value counts as a list of one.
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

func (s *section) names(key string) (out []string) {
	for _, v := range s.list(key) {
		if name := scalar(v); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func (s *section) entries(f func(key string, value any)) {
	for _, item := range s.items {
		key := fmt.Sprint(item.Key)
		s.taken[key] = true
		f(key, item.Value)
	}
}

func (s *section) ignore(keys ...string) {
	for _, key := range keys {
		s.taken[key] = true
	}
}

// rest adds a note for each setting that was not taken. why maps common settings to the reasons why
// they have no counterpart.
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
