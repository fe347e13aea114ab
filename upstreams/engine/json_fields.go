package engine

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
)

// parseJSON decodes a JSON page of an engine. Only probes use it: their pages are small and rare.
func parseJSON(body []byte) (any, error) {
	var page any
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, errNotJSON // the decoder's own text quotes the page
	}
	return page, nil
}

var errNotJSON = errors.New("the page is not JSON")

// eachField calls visit with every value that a field names: member names and positions joined by
// dots, * for all elements.
func eachField(page any, field string, visit func(any)) {
	if field == "" {
		if page != nil {
			visit(page)
		}
		return
	}
	name, rest, _ := strings.Cut(field, ".")
	switch v := page.(type) {
	case map[string]any:
		if name == "*" {
			for _, element := range v {
				eachField(element, rest, visit)
			}
		} else if element, ok := v[name]; ok {
			eachField(element, rest, visit)
		}
	case []any:
		if name == "*" {
			for _, element := range v {
				eachField(element, rest, visit)
			}
		} else if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(v) {
			eachField(v[i], rest, visit)
		}
	}
}

// fieldText returns a field's first string.
func fieldText(page any, field string) string {
	out := ""
	if field == "" {
		return out
	}
	eachField(page, field, func(v any) {
		if s, ok := v.(string); ok && out == "" {
			out = s
		}
	})
	return out
}

// sumField adds up a field's numbers, with true as 1; found is false when there is none.
func sumField(page any, field string) (total float64, found bool) {
	eachField(page, field, func(v any) {
		switch n := v.(type) {
		case float64:
			if n >= 0 && !math.IsInf(n, 0) {
				total, found = total+n, true
			}
		case bool:
			found = true
			if n {
				total++
			}
		}
	})
	return total, found
}

// meanField is sumField over the number of matches.
func meanField(page any, field string) (float64, bool) {
	n := 0
	eachField(page, field, func(v any) {
		if _, ok := v.(float64); ok {
			n++
		}
	})
	total, found := sumField(page, field)
	if !found || n == 0 {
		return 0, false
	}
	return total / float64(n), true
}

// firstField tries fields in order and returns the firstField number found by how.
func firstField(page any, fields []string, how func(any, string) (float64, bool)) (float64, bool) {
	for _, field := range fields {
		if v, ok := how(page, field); ok {
			return v, true
		}
	}
	return 0, false
}

// fieldSays reports whether a field is true, or a text or array that holds one of words. known is
// false when the field is missing.
func fieldSays(page any, field string, words ...string) (yes, known bool) {
	if field == "" {
		return false, false
	}
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case bool:
			known, yes = true, yes || v
		case string:
			known = true
			for _, w := range words {
				yes = yes || v == w
			}
		case []any:
			known = true
			for _, element := range v {
				look(element)
			}
		}
	}
	eachField(page, field, look)
	return yes, known
}

// clampCount bounds a number that an engine reported to what a count can be.
func clampCount(n float64) int { return int(min(max(n, 0), 1<<30)) }
