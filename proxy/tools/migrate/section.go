package migrate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// sourceMapping is a mapping in the file that is being migrated. The reader takes the settings that
// it understands out of the section.
type sourceMapping struct {
	path      string // empty for the entire file
	items     yaml.MapSlice
	takenKeys map[string]bool
}

func newSourceMapping(path string, v any) *sourceMapping {
	items, _ := v.(yaml.MapSlice)
	return &sourceMapping{path: path, items: items, takenKeys: map[string]bool{}}
}

func (s *sourceMapping) takeKey(key string) any {
	s.takenKeys[key] = true
	for _, item := range s.items {
		if fmt.Sprint(item.Key) == key {
			return item.Value
		}
	}
	return nil
}

// takeText takes a setting and returns its scalar value. If the setting is missing, it returns "".
func (s *sourceMapping) takeText(key string) string { return scalarText(s.takeKey(key)) }

func scalarText(v any) string {
	switch v := v.(type) {
	case nil, yaml.MapSlice, []any:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return strings.TrimSpace(fmt.Sprint(v))
	}
}

// takeNumber takes a setting and returns its value. If the value is not a positive number, it
// returns 0.
func (s *sourceMapping) takeNumber(key string) float64 {
	n, err := strconv.ParseFloat(s.takeText(key), 64)
	if err != nil || !(n > 0) || n > 1e12 {
		return 0
	}
	return n
}

// takeInteger takes a setting and returns its value. If the value is not a positive integer, it
// returns 0.
func (s *sourceMapping) takeInteger(key string) int { return int(s.takeNumber(key)) }

func (s *sourceMapping) takeSection(key string) *sourceMapping {
	return newSourceMapping(joinPath(s.path, key), s.takeKey(key))
}

// takeList takes a setting and returns its list. A single value counts as a list with one element.
func (s *sourceMapping) takeList(key string) []any {
	switch v := s.takeKey(key).(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}

func (s *sourceMapping) takeNames(key string) (out []string) {
	for _, v := range s.takeList(key) {
		if name := scalarText(v); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func (s *sourceMapping) eachEntry(f func(key string, value any)) {
	for _, item := range s.items {
		key := fmt.Sprint(item.Key)
		s.takenKeys[key] = true
		f(key, item.Value)
	}
}

func (s *sourceMapping) ignoreKeys(keys ...string) {
	for _, key := range keys {
		s.takenKeys[key] = true
	}
}

// noteUnreadKeys adds a note for each setting that was not taken. why maps common settings to the
// reasons why they have no counterpart.
func (s *sourceMapping) noteUnreadKeys(p *conversionPlan, why map[string]string) {
	for _, item := range s.items {
		key := fmt.Sprint(item.Key)
		if s.takenKeys[key] || item.Value == nil {
			continue
		}
		reason := why[key]
		if reason == "" {
			reason = "there is no counterpart"
		}
		p.addNote("%s: %s", joinPath(s.path, key), reason)
	}
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
