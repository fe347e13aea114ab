package engine

import (
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// parseJSON decodes an engine's JSON page. Only probes use it, and their pages are small and rare.
func parseJSON(body []byte) (any, error) {
	var page any
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, errNotJSON // the decoder's error text quotes the page
	}
	return page, nil
}

var errNotJSON = errors.New("the page is not JSON")

// fields yields every value that a field refers to. A field is a path of member names and
// positions joined by dots, with * for all elements. fields omits null.
func fields(page any, field string) iter.Seq[any] {
	return func(yield func(any) bool) { walk(page, field, yield) }
}

func walk(page any, field string, yield func(any) bool) (more bool) {
	if field == "" {
		return page == nil || yield(page)
	}
	name, rest, _ := strings.Cut(field, ".")
	var elements []any
	switch v := page.(type) {
	case map[string]any:
		if elements = []any{v[name]}; name == "*" {
			elements = slices.Collect(maps.Values(v))
		}
	case []any:
		if i, err := strconv.Atoi(name); name == "*" {
			elements = v
		} else if err == nil && i >= 0 && i < len(v) {
			elements = v[i : i+1]
		}
	}
	return !slices.ContainsFunc(elements, func(e any) bool { return !walk(e, rest, yield) })
}

// fieldText returns the first string in a field.
func fieldText(page any, field string) string {
	if field == "" {
		return ""
	}
	for v := range fields(page, field) {
		if s, ok := v.(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// sumField adds up a field's numbers, and counts true as 1. found is false if the field has no
// numbers.
func sumField(page any, field string) (total float64, found bool) {
	for v := range fields(page, field) {
		switch n := v.(type) {
		case float64:
			if n >= 0 && !math.IsInf(n, 0) {
				total, found = total+n, true
			}
		case bool:
			if found = true; n {
				total++
			}
		}
	}
	return total, found
}

// meanField returns the sum from sumField, divided by the number of values that matched.
func meanField(page any, field string) (float64, bool) {
	n := 0
	for v := range fields(page, field) {
		if _, ok := v.(float64); ok {
			n++
		}
	}
	total, found := sumField(page, field)
	return total / float64(max(1, n)), found && n > 0
}

// firstField tries the fields in order and returns the first number that how finds.
func firstField(page any, names []string, how func(any, string) (float64, bool)) (float64, bool) {
	for _, name := range names {
		if v, ok := how(page, name); ok {
			return v, true
		}
	}
	return 0, false
}

// fieldSays reports whether a field is true, or is a string or array that contains one of the
// words. known is false if the field is missing.
func fieldSays(page any, field string, words ...string) (yes, known bool) {
	if field == "" {
		return false, false
	}
	for v := range fields(page, field) {
		y, k := says(v, words)
		yes, known = yes || y, known || k
	}
	return yes, known
}

func says(v any, words []string) (yes, known bool) {
	switch v := v.(type) {
	case bool:
		return v, true
	case string:
		return slices.Contains(words, v), true
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { yes, _ := says(e, words); return yes }), true
	}
	return false, false
}

// clampCount limits a number from an engine to the range of a count.
func clampCount(n float64) int { return int(min(max(n, 0), 1<<30)) }
