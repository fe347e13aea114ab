package upstreams

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
)

// parsePage decodes a JSON page of an engine. It is only used on probe paths, where pages are small and rare.
func parsePage(body []byte) (any, error) {
	var page any
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, errNotJSON // the decoder's own text quotes the page
	}
	return page, nil
}

var errNotJSON = errors.New("the page is not JSON")

// each calls visit with every value that a field names: member names and positions joined by dots, * for all elements.
func each(page any, field string, visit func(any)) {
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
				each(element, rest, visit)
			}
		} else if element, ok := v[name]; ok {
			each(element, rest, visit)
		}
	case []any:
		if name == "*" {
			for _, element := range v {
				each(element, rest, visit)
			}
		} else if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(v) {
			each(v[i], rest, visit)
		}
	}
}

// text returns a field's first string.
func text(page any, field string) string {
	out := ""
	if field == "" {
		return out
	}
	each(page, field, func(v any) {
		if s, ok := v.(string); ok && out == "" {
			out = s
		}
	})
	return out
}

// sum adds up a field's numbers, with true as 1; found is false when there is none.
func sum(page any, field string) (total float64, found bool) {
	each(page, field, func(v any) {
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

// mean is sum over the number of matches.
func mean(page any, field string) (float64, bool) {
	n := 0
	each(page, field, func(v any) {
		if _, ok := v.(float64); ok {
			n++
		}
	})
	total, found := sum(page, field)
	if !found || n == 0 {
		return 0, false
	}
	return total / float64(n), true
}

// first tries fields in order and returns the first number found by how.
func first(page any, fields []string, how func(any, string) (float64, bool)) (float64, bool) {
	for _, field := range fields {
		if v, ok := how(page, field); ok {
			return v, true
		}
	}
	return 0, false
}

// says reports whether a field is true, or a text or array that holds one of words. known is false when the field is
// missing.
func says(page any, field string, words ...string) (yes, known bool) {
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
	each(page, field, look)
	return yes, known
}

// count clamps a number of an engine's to what a count can be.
func count(n float64) int { return int(min(max(n, 0), 1<<30)) }
