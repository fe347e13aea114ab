package command

import (
	"slices"
	"strings"
	"unicode"
)

// wordSynonyms maps common words, and terms used by other proxies, to our terms.
var wordSynonyms = map[string][]string{
	"backend":        {"upstreams"},
	"backends":       {"upstreams"},
	"balancing":      {"policy"},
	"load_balancing": {"policy"},
	"canary":         {"traffic", "shadow"},
	"cluster":        {"fleet"},
	"health":         {"probe", "healthy"},
	"health_check":   {"probe", "healthy"},
	"heartbeat":      {"probe"},
	"oom":            {"memory"},
	"parallel":       {"concurrency"},
	"provider":       {"upstreams"},
	"replicas":       {"upstreams"},
	"rate_limit":     {"rate_limited", "requests_per_minute", "tokens_per_minute"},
	"ratelimit":      {"rate_limited", "requests_per_minute", "tokens_per_minute"},
	"retries":        {"retry"},
	"rpm":            {"requests_per_minute"},
	"tpm":            {"tokens_per_minute", "capacity_tpm"},
	"slots":          {"concurrency", "capacity_full"},
	"spend":          {"pricing", "budget", "quota_exceeded"},
	"timed_out":      {"timeout", "timeouts"},

	"overloaded_error": {"529"}, // error type in the Messages dialect
	"rate_limit_error": {"429"},
}

// rowsMatchingWord returns the rows that match a common word, in its singular or plural form. A
// setting matches if a part of its path equals or contains the word. An error code matches if its
// cause or remedy contains the word.
func rowsMatchingWord(all []referenceRow, word string) (rows []referenceRow) {
	words := append([]string{word, word + "s", strings.TrimSuffix(word, "s")}, wordSynonyms[word]...)
	is := func(part string) bool { return part != "" && slices.Contains(words, part) }
	for _, row := range all {
		switch {
		case slices.ContainsFunc(strings.Split(row.name, "."), is),
			slices.ContainsFunc(strings.FieldsFunc(row.name, isNotLetter), is),
			row.isErrorCode() && slices.ContainsFunc(rowHTTPStatuses(row), is),
			row.isErrorCode() && slices.ContainsFunc(strings.FieldsFunc(row.cells[1]+" "+row.cells[2], isWordSeparator), is):
			rows = append(rows, row)
		}
	}
	return rows
}

func isNotLetter(r rune) bool { return !unicode.IsLetter(r) }

// isWordSeparator reports whether r separates words in a sentence or parts of a path.
func isWordSeparator(r rune) bool { return !unicode.IsLetter(r) && r != '_' }

func (r *referenceRow) summary() string {
	text := r.cells[len(r.cells)-1]
	if r.isErrorCode() {
		text = r.cells[0] + ": " + r.cells[1]
	}
	text, _, _ = strings.Cut(text, ". ")
	return strings.TrimSuffix(text, ".")
}
