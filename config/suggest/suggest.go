// Package suggest finds the known word that the author of a misspelt word probably meant.
package suggest

import (
	"fmt"
	"slices"
	"strings"
)

// DidYouMean returns `: did you mean "x"?` for the most similar candidate, or "" if none is
// similar.
func DidYouMean(name string, candidates []string) string {
	if best := Nearest(name, candidates); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ""
}

// ChoiceHint is like DidYouMean, but lists all candidates if none is similar.
func ChoiceHint(name string, candidates []string) string {
	if hint := DidYouMean(name, candidates); hint != "" {
		return hint
	}
	return ": choose " + JoinWithOr(candidates)
}

// maxCandidates limits the number of compared words, because the time for a suggestion grows with
// their number.
const maxCandidates = 1000

// Nearest returns the candidate that is most similar to name, or "" if none is similar. A candidate
// is similar if it differs from name only in spelling style, in at most a third of the letters, or
// by one added or missing word.
func Nearest(name string, candidates []string) string {
	plain := NormalizeName(name)
	best, least := "", max(1, len(plain)/3)+1
	candidates = candidates[:min(len(candidates), maxCandidates)]
	for _, c := range candidates {
		near := NormalizeName(c)
		if lengths := len(near) - len(plain); lengths >= least || -lengths >= least {
			continue // the lengths differ too much
		}
		if d := editDistance(plain, near); d < least {
			best, least = c, d
		}
	}
	if best != "" || len(plain) < 4 {
		return best
	}
	i := slices.IndexFunc(candidates, func(c string) bool {
		c = NormalizeName(c)
		return len(c) >= 4 && (strings.Contains(plain, c) || strings.Contains(c, plain))
	})
	if i < 0 {
		return ""
	}
	return candidates[i]
}

// NormalizeName removes the spelling style from a name, so that apiKey, api-key and API_KEY become
// the same word.
func NormalizeName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' || r == '.' {
			return -1
		}
		return r
	}, strings.ToLower(s[:min(len(s), 64)]))
}

// editDistance returns how many letters must be inserted, deleted, replaced or swapped with a
// neighbour to convert a to b.
func editDistance(a, b string) int {
	previous, current, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range current {
		current[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(next[j]+1, current[j+1]+1, current[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], previous[j-1]+1)
			}
		}
		previous, current, next = current, next, previous
	}
	return current[len(b)]
}

// JoinWithOr formats names as "a, b or c".
func JoinWithOr(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
