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

// parseJSON decodes an engine's page into generic values. It is slow, but used only for small
// pages.
func parseJSON(body []byte) (any, error) {
	var page any
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, errNotJSON // the decoder's error text quotes the page
	}
	return page, nil
}

var errNotJSON = errors.New("the page is not JSON")

// fieldValues iterates over the values at a path. A path consists of member names and array
// indices, separated by dots. * matches all elements of an array. Null values are skipped.
func fieldValues(page any, field string) iter.Seq[any] {
	return func(yield func(any) bool) { walkFields(page, field, yield) }
}

func walkFields(page any, field string, yield func(any) bool) (more bool) {
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
	return !slices.ContainsFunc(elements, func(e any) bool { return !walkFields(e, rest, yield) })
}

// fieldText returns the first non-empty string at a path.
func fieldText(page any, field string) string {
	if field == "" {
		return ""
	}
	for v := range fieldValues(page, field) {
		if s, ok := v.(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// sumField returns the sum of the numbers at a path. true counts as 1. found is false if there is
// no number at the path.
func sumField(page any, field string) (total float64, found bool) {
	for v := range fieldValues(page, field) {
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

// meanField returns the mean of the numbers at a path.
func meanField(page any, field string) (float64, bool) {
	n := 0
	for v := range fieldValues(page, field) {
		if _, ok := v.(float64); ok {
			n++
		}
	}
	total, found := sumField(page, field)
	return total / float64(max(1, n)), found && n > 0
}

// readFirstField calls the function how for each path in turn. It returns the first value that how
// finds.
func readFirstField(page any, names []string, how func(any, string) (float64, bool)) (float64, bool) {
	for _, name := range names {
		if v, ok := how(page, name); ok {
			return v, true
		}
	}
	return 0, false
}

// fieldMatches reports whether the value at a path is true, equals one of the words, or is an array
// that contains one of the words. known is false if there is no value at the path.
func fieldMatches(page any, field string, words ...string) (yes, known bool) {
	if field == "" {
		return false, false
	}
	for v := range fieldValues(page, field) {
		y, k := valueMatches(v, words)
		yes, known = yes || y, known || k
	}
	return yes, known
}

func valueMatches(v any, words []string) (yes, known bool) {
	switch v := v.(type) {
	case bool:
		return v, true
	case string:
		return slices.Contains(words, v), true
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { yes, _ := valueMatches(e, words); return yes }), true
	}
	return false, false
}

func clampCount(n float64) int { return int(min(max(n, 0), 1<<30)) }
